// Authority: HOST[:PORT], as a Host header, a URL and a web page's origin name a server. RFC 3986, 3.2.
//
// Without user names. A host is compared as text: its letters in lower case, a final dot left out. Pure
// functions of outside bytes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace numoe::net {

struct Authority {
  std::string host;  // in lower case; of an IPv6 address without its brackets; may be empty
  std::string port;  // "": none is named
};

std::optional<Authority> ReadAuthority(std::string_view text);
/// An address, or a name that is looked up nowhere but on the host itself: localhost, 127.0.0.1, ::1.
bool IsLoopbackName(const std::string& host);
/// An address in digits, which no name server has a say in. Browsers write all of its spellings so.
bool IsAddress(const std::string& host);

}  // namespace numoe::net
