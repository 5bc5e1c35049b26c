// Url: where an OpenAI-compatible server is, as people write it.
//
// http://HOST[:PORT][/PATH] or https://...; without a scheme http is meant. HOST is a name, an IPv4 address
// or an IPv6 address in brackets. A path's trailing "/v1" is dropped, because other clients' base URLs carry
// it. Anything else - user names, queries, control characters - is INVALID_ARGUMENT naming the URL. Pure
// function.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace numoe::net {

struct Url {
  bool tls = false;
  std::string host;  // without brackets
  std::string port;  // decimal
  std::string path;  // "" or "/PREFIX", no slash at its end

  /// "http://HOST:PORT/PREFIX", without the port where it is the usual one.
  std::string ToString() const;
  /// What the Host header says.
  std::string Authority() const;
};

absl::StatusOr<Url> ParseUrl(std::string_view text);

}  // namespace numoe::net
