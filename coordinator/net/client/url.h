// Url: the address of an OpenAI-compatible server, as people write it.
//
// http://HOST[:PORT][/PATH] or https://...; without a scheme, http is assumed. HOST is a name, an IPv4
// address or an IPv6 address in brackets. A "/v1" at the end of the path is dropped, because the base URLs of
// other clients contain it. Anything else (user names, queries, control characters) is INVALID_ARGUMENT with
// the URL in the message. Pure function.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace numoe::net {

struct Url {
  bool tls = false;
  std::string host;  // without brackets
  std::string port;  // decimal
  std::string path;  // "" or "/PREFIX", without a slash at the end

  /// "http://HOST:PORT/PREFIX", without the port if it is the scheme's default.
  std::string ToString() const;
  /// The value of the Host header.
  std::string Authority() const;
};

absl::StatusOr<Url> ParseUrl(std::string_view text);

}  // namespace numoe::net
