// Authority: HOST[:PORT], as a Host header, a URL and a web page's origin name a server (RFC 3986, 3.2).
//
// User names are not accepted. Hosts are compared as text, in lower case and without a final dot. Pure
// functions of bytes from outside.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace numoe::net {

struct Authority {
  std::string host;  // in lower case; an IPv6 address has no brackets here; may be empty
  std::string port;  // "" if no port is given
};

std::optional<Authority> ReadAuthority(std::string_view text);
/// Whether the name always means the host itself and no name server is asked for it: localhost, 127.0.0.1,
/// ::1.
bool IsLoopbackName(const std::string& host);
/// Whether `host` is an IP address, which no name server can redirect. Browsers normalise all spellings to
/// this form.
bool IsAddress(const std::string& host);

}  // namespace numoe::net
