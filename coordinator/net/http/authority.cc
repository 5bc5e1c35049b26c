#include "coordinator/net/http/authority.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstdint>

#include "coordinator/net/http/lower_case.h"

namespace numoe::net {
namespace {

namespace ip = boost::asio::ip;

bool IsHexDigit(unsigned char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

bool IsPort(std::string_view text) {
  uint16_t port = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, port);
  return text.empty() || (read.ec == std::errc() && read.ptr == end);
}

bool IsHostName(std::string_view text) {
  constexpr std::string_view kMarks = "-._~!$&'()*+,;=";
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '%') {
      if (i + 2 >= text.size() || !IsHexDigit(static_cast<unsigned char>(text[i + 1])) ||
          !IsHexDigit(static_cast<unsigned char>(text[i + 2])))
        return false;
      i += 2;
    } else if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z') &&
               kMarks.find(text[i]) == std::string_view::npos) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::optional<Authority> ReadAuthority(std::string_view text) {
  Authority authority;
  std::string_view host = text, rest;
  if (text.starts_with('[')) {
    const size_t end = text.find(']');
    if (end == std::string_view::npos) return std::nullopt;
    host = text.substr(1, end - 1);
    rest = text.substr(end + 1);
    boost::system::error_code error;
    ip::make_address_v6(std::string(host), error);
    if (error || host.find('%') != std::string_view::npos) return std::nullopt;
    if (!rest.empty() && rest[0] != ':') return std::nullopt;
  } else {
    host = text.substr(0, text.find(':'));
    rest = text.substr(host.size());
    if (!IsHostName(host)) return std::nullopt;
  }
  if (!rest.empty()) rest.remove_prefix(1);
  if (!IsPort(rest)) return std::nullopt;
  if (host.ends_with('.')) host.remove_suffix(1);
  authority.host = LowerCase(host);
  authority.port = std::string(rest);
  return authority;
}

bool IsAddress(const std::string& host) {
  boost::system::error_code error;
  ip::make_address(host, error);
  return !error;
}

bool IsLoopbackName(const std::string& host) {
  boost::system::error_code error;
  const ip::address address = ip::make_address(host, error);
  if (error) return host == "localhost" || host.ends_with(".localhost");
  const bool mapped = address.is_v6() && address.to_v6().is_v4_mapped();
  return address.is_loopback() ||
         (mapped && ip::make_address_v4(ip::v4_mapped, address.to_v6()).is_loopback());
}

}  // namespace numoe::net
