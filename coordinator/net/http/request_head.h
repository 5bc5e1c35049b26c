// RequestHead: the head of an HTTP/1 request, read from its bytes by RFC 9112.
//
// A proxy between a client and this server may read a head that violates the rules in another way, and then
// take different bytes for the next request. Therefore nothing is guessed or repaired: a head has one
// meaning, or it is refused with a message and its connection is not used again. Pure functions of bytes from
// outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "coordinator/net/http/api_error.h"

namespace numoe::net {

/// What a head says about the body that follows it.
struct AnnouncedBody {
  uint64_t bytes = 0;    // 0: there is no body, or it is chunked
  bool chunked = false;  // the length is not known in advance
  bool any() const { return chunked || bytes > 0; }
};

struct RequestHead {
  std::string method;
  std::string target;     // path and query, also of an absolute target; "*": OPTIONS of the whole server
  std::string authority;  // HOST[:PORT] of an absolute target, else of the Host field
  bool http10 = false;    // the client speaks HTTP/1.0: no chunks, no interim answers
  bool keep_alive = true;
  AnnouncedBody body;
  bool awaits_continue = false;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
};

/// Finds heads at the beginning of a connection's bytes, one after the other.
class HeadReader {
 public:
  /// Returns a head, or the reason why these bytes cannot begin one, or nullopt if more bytes are needed.
  /// Adds to `used` the number of bytes that were read, including empty lines before a head; they must not be
  /// passed again.
  std::optional<std::variant<RequestHead, ApiError>> Read(std::string_view bytes, size_t& used);

 private:
  size_t looked_ = 0;  // bytes at the beginning that an earlier call has checked
};

/// Whether `line` is a field of a head or trailer: "name: value".
bool IsFieldLine(std::string_view line);
/// The part of `text` that an error may show.
std::string Shown(std::string_view text);

}  // namespace numoe::net
