// RequestHead: the head of an HTTP/1 request, read from its bytes by RFC 9112.
//
// Whoever stands between a client and this server may read a head that breaks the rules in another way, and
// then takes other bytes for the next request. So nothing is guessed or mended: a head has one meaning or is
// refused, with a sentence, and its connection is not used again. Pure functions of outside bytes.
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

/// What a head says of the body behind it.
struct AnnouncedBody {
  uint64_t bytes = 0;    // 0: none, or as many as come
  bool chunked = false;  // as many as come
  bool any() const { return chunked || bytes > 0; }
};

struct RequestHead {
  std::string method;
  std::string target;     // path and query, of an absolute target, too; "*": OPTIONS of the whole server
  std::string authority;  // HOST[:PORT] that is asked: the absolute target's, else the Host field's
  bool http10 = false;    // the client speaks HTTP/1.0: no chunks, no interim answers
  bool keep_alive = true;
  AnnouncedBody body;
  bool awaits_continue = false;
  std::vector<std::pair<std::string, std::string>> fields;  // names in lower case
};

/// Finds heads at the front of the bytes of a connection, one after the other.
class HeadReader {
 public:
  /// A head, or why these bytes can begin none; nothing: more has to come. The bytes that were read, empty
  /// lines before a head included, are added to `used`, and are not to come again.
  std::optional<std::variant<RequestHead, ApiError>> Read(std::string_view bytes, size_t& used);

 private:
  size_t looked_ = 0;  // so many of the bytes that come again were in order
};

/// Whether `line` is a field of a head or trailer: "name: value".
bool IsFieldLine(std::string_view line);
/// What of `text` an error may show.
std::string Shown(std::string_view text);

}  // namespace numoe::net
