// RequestBody: reads a request's body from pieces of any size: a body of a known length, or one in chunks
// (RFC 9112, 7.1).
//
// As strict as request_head.h, for the same reason: chunk lines and trailers must end in CR LF and have the
// form that the RFC defines. Everything in them except the lengths is dropped, and its size is limited for
// the whole body. Memory grows with the bytes that have arrived, not with the announced length. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "coordinator/net/http/request_head.h"

namespace numoe::net {

class RequestBody {
 public:
  enum class State : uint8_t { kMore, kWhole, kMalformed, kTooLarge };

  /// `bytes_max` limits the size of the body. REQUIRES: a known length does not exceed it.
  RequestBody(AnnouncedBody announced, size_t bytes_max);

  /// Continues reading; returns how many of `bytes` belong to the body. REQUIRES: state() is kMore.
  size_t Take(std::string_view bytes);
  State state() const { return state_; }
  std::string& text() { return text_; }

 private:
  enum class Part : uint8_t { kSize, kData, kDataEnd, kTrailer };

  void TakeData(std::string_view& bytes);
  /// Reads up to the end of a chunk's or trailer's line; returns false if the line is incomplete or
  /// malformed.
  bool TakeLine(std::string_view& bytes);
  State OnLine();
  State OnSize();

  const size_t bytes_max_;
  const bool chunked_;
  State state_ = State::kMore;
  Part part_;
  std::string text_;
  std::string line_;      // the part that has arrived
  uint64_t missing_ = 0;  // bytes of the known length, or of this chunk
  size_t overhead_ = 0;   // bytes of all lines except the chunks' lengths
};

}  // namespace numoe::net
