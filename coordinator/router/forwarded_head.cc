#include "coordinator/router/forwarded_head.h"

#include <algorithm>
#include <charconv>
#include <set>

namespace numoe::router {
namespace {

constexpr std::string_view kConnectionFields[] = {"connection", "keep-alive",    "proxy-connection",
                                                  "te",         "trailer",       "transfer-encoding",
                                                  "upgrade",    "content-length"};
// The router sets or checks these itself.
constexpr std::string_view kOwnFields[] = {"host", "expect", "origin", "x-request-id"};

template <size_t n>
bool IsOne(std::string_view name, const std::string_view (&names)[n]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

// Returns the names in all Connection fields, in lower case.
std::set<std::string> NamedFields(const net::HttpHeaders& headers) {
  std::set<std::string> names;
  for (const auto& [name, value] : headers) {
    if (name != "connection") continue;
    std::string one;
    for (const char c : value + ",") {
      if (c == ',') {
        names.insert(std::exchange(one, {}));
      } else if (c != ' ' && c != '\t') {
        one += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      }
    }
  }
  return names;
}

}  // namespace

net::HttpHeaders ForwardedHeaders(const net::HttpRequest& request) {
  const std::set<std::string> named = NamedFields(request.headers);
  net::HttpHeaders headers;
  for (const auto& [name, value] : request.headers) {
    if (!IsOne(name, kConnectionFields) && !IsOne(name, kOwnFields) && named.count(name) == 0)
      headers.emplace_back(name, value);
  }
  headers.emplace_back("x-request-id", request.id);
  return headers;
}

bool IsFinalStatus(int status) { return 200 <= status && status <= 599; }

net::HttpReply ForwardedReply(int status, const net::HttpHeaders& headers) {
  const std::set<std::string> named = NamedFields(headers);
  net::HttpReply reply{.status = status, .body = "", .type = ""};
  for (const auto& [name, value] : headers) {
    if (name == "content-type") {
      reply.type = value;
    } else if (!IsOne(name, kConnectionFields) && name != "x-request-id" && named.count(name) == 0) {
      reply.headers.emplace_back(name, value);
    }
  }
  return reply;
}

bool IsShort(const net::HttpHeaders& headers, size_t bytes_max) {
  for (const auto& [name, value] : headers) {
    if (name != "content-length") continue;
    size_t bytes = 0;
    const char* const end = value.data() + value.size();
    const auto read = std::from_chars(value.data(), end, bytes);
    return read.ec == std::errc() && read.ptr == end && bytes <= bytes_max;
  }
  return false;
}

}  // namespace numoe::router
