#include "coordinator/net/http/exchange.h"

namespace numoe::net {
namespace {

std::string_view FirstOf(const std::vector<std::pair<std::string, std::string>>& fields,
                         std::string_view name) {
  for (const auto& [key, value] : fields) {
    if (key == name) return value;
  }
  return "";
}

}  // namespace

std::string_view HttpRequest::Header(std::string_view name) const { return FirstOf(headers, name); }
std::string_view HttpRequest::Query(std::string_view name) const { return FirstOf(query, name); }

}  // namespace numoe::net
