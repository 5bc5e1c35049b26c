#include "coordinator/net/client/url.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"

namespace numoe::net {
namespace {

constexpr int kPortMax = 65535;

bool Strip(std::string_view& text, std::string_view prefix) {
  if (text.substr(0, prefix.size()) != prefix) return false;
  text.remove_prefix(prefix.size());
  return true;
}

const char* DefaultPort(bool tls) { return tls ? "443" : "80"; }

bool IsPort(std::string_view text) {
  int port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  return error == std::errc() && end == text.data() + text.size() && port >= 1 && port <= kPortMax;
}

bool HasOddCharacters(std::string_view text) {
  return std::any_of(text.begin(), text.end(),
                     [](char c) { return c <= ' ' || c == '\x7f' || c == '?' || c == '#' || c == '@'; });
}

// Reads HOST[:PORT] or [HOST][:PORT]; the port is not changed if none is given.
bool ReadAuthority(std::string_view authority, Url& url) {
  if (Strip(authority, "[")) {
    const size_t end = authority.find(']');
    if (end == std::string_view::npos) return false;
    url.host = std::string(authority.substr(0, end));
    authority.remove_prefix(end + 1);
  } else {
    url.host = std::string(authority.substr(0, authority.find(':')));
    authority.remove_prefix(url.host.size());
  }
  if (url.host.empty() || url.host.find_first_of("[]/") != std::string::npos) return false;
  if (authority.empty()) return true;
  if (!Strip(authority, ":") || !IsPort(authority)) return false;
  url.port = std::string(authority);
  return true;
}

}  // namespace

std::string Url::Authority() const {
  const std::string name = host.find(':') == std::string::npos ? host : "[" + host + "]";
  return port == DefaultPort(tls) ? name : name + ":" + port;
}

std::string Url::ToString() const {
  return fmt::format("{}://{}{}", tls ? "https" : "http", Authority(), path);
}

absl::StatusOr<Url> ParseUrl(std::string_view text) {
  const auto error = [&](const char* what) {
    return absl::InvalidArgumentError(
        fmt::format("'{}': {}; expected http://HOST[:PORT][/PATH] or https://...", Printable(text), what));
  };
  Url url;
  std::string_view rest = text;
  if (Strip(rest, "https://")) {
    url.tls = true;
  } else if (!Strip(rest, "http://") && rest.find("://") != std::string_view::npos) {
    return error("the scheme is neither http nor https");
  }
  if (HasOddCharacters(rest)) return error("it has a character that a URL cannot have");
  url.port = DefaultPort(url.tls);
  const size_t slash = std::min(rest.find('/'), rest.size());
  if (!ReadAuthority(rest.substr(0, slash), url)) return error("it has no host, or its port is not a number");
  std::string_view path = rest.substr(slash);
  const auto drop_slashes = [&] {
    while (!path.empty() && path.back() == '/') path.remove_suffix(1);
  };
  drop_slashes();
  if (path.size() >= 3 && path.substr(path.size() - 3) == "/v1") path.remove_suffix(3);
  drop_slashes();
  NUMOE_CHECK(!url.host.empty() && IsPort(url.port)) << url.port;
  NUMOE_DCHECK(path.empty() || (path.front() == '/' && path.back() != '/'));
  url.path = std::string(path);
  return url;
}

}  // namespace numoe::net
