// RequestBody: a request's body, read from its bytes however they are cut: of a known length, or in chunks
// (RFC 9112, 7.1).
//
// Strict as request_head.h is, and for the same reason: chunk lines and trailers end in CR LF, and have the
// form that the RFC gives them. What they say besides the length is dropped, and bounded for all of a body
// together. Memory grows with what has come, and not with what was announced. One thread.
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

  /// `bytes_max`: of the body; a known length is within it.
  RequestBody(AnnouncedBody announced, size_t bytes_max);

  /// Reads on; returns how many of `bytes` belong to the body. REQUIRES: state() is kMore.
  size_t Take(std::string_view bytes);
  State state() const { return state_; }
  std::string& text() { return text_; }

 private:
  enum class Part : uint8_t { kSize, kData, kDataEnd, kTrailer };

  void TakeData(std::string_view& bytes);
  /// Up to the end of the chunk's or trailer's line; false: it has not all come, or is none.
  bool TakeLine(std::string_view& bytes);
  State OnLine();
  State OnSize();

  const size_t bytes_max_;
  const bool chunked_;
  State state_ = State::kMore;
  Part part_;
  std::string text_;
  std::string line_;      // as far as it has come
  uint64_t missing_ = 0;  // of the known length, or of this chunk
  size_t overhead_ = 0;   // of all lines but the chunks' lengths
};

}  // namespace numoe::net
