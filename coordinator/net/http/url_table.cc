#include "coordinator/net/http/url_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/check.h"

namespace numoe::net {
namespace {

std::string_view TakeSegment(std::string_view& path) {
  NUMOE_DCHECK(!path.empty());
  const size_t end = path.find('/', 1);
  const std::string_view segment = path.substr(0, end);
  path.remove_prefix(segment.size());
  return segment;
}

std::optional<std::vector<std::string>> Match(std::string_view pattern, std::string_view path) {
  std::vector<std::string> captures;
  while (!pattern.empty() && !path.empty()) {
    const std::string_view wanted = TakeSegment(pattern), found = TakeSegment(path);
    if (wanted == "/{}" && found.size() > 1) {
      captures.emplace_back(found.substr(1));
    } else if (wanted != found) {
      return std::nullopt;
    }
  }
  if (!pattern.empty() || !path.empty()) return std::nullopt;
  return captures;
}

}  // namespace

void UrlTable::Add(Route route) {
  NUMOE_CHECK(route.pattern.starts_with('/')) << route.pattern;
  for (const Route& other : routes_)
    NUMOE_CHECK(other.method != route.method || other.pattern != route.pattern) << route.pattern;
  if (route.method == "GET" || route.method == "DELETE") route.body_max = 0;
  routes_.push_back(std::move(route));
}

bool UrlTable::Has(std::string_view path) const {
  return std::any_of(routes_.begin(), routes_.end(),
                     [&](const Route& route) { return Match(route.pattern, path).has_value(); });
}

std::string UrlTable::Known(std::string_view path) const {
  const std::string below = "/v1" + std::string(path);
  return !Has(path) && Has(below) ? below : std::string(path);
}

std::variant<RouteMatch, ApiError> UrlTable::Find(std::string_view method, std::string_view path) const {
  std::string known = Known(path);
  for (const Route& route : routes_) {
    if (route.method != method) continue;
    if (auto captures = Match(route.pattern, known))
      return RouteMatch{&route, *std::move(captures), std::move(known)};
  }
  if (fallback_.has_value()) return RouteMatch{&*fallback_, {}, std::string(path)};
  if (others_.has_value()) return *others_;
  const std::string allowed = Allowed(path);
  if (!allowed.empty()) {
    return ApiError{
        .http_status = 405,
        .message = fmt::format("{} accepts {} requests, found {}", std::string(path.substr(0, 200)), allowed,
                               std::string(method.substr(0, 20))),
        .code = "method_not_allowed"};
  }
  return ApiError{.http_status = 404,
                  .message = fmt::format("no such path: {}; {}", std::string(path.substr(0, 200)),
                                         std::string(WhyAbsent(path))),
                  .code = "not_found"};
}

void UrlTable::Explain(std::string path, std::string explanation) {
  NUMOE_CHECK(path.starts_with('/') && !explanation.empty()) << path;
  explanations_.emplace_back(std::move(path), std::move(explanation));
}

std::string_view UrlTable::WhyAbsent(std::string_view path) const {
  for (const std::string& tried : {std::string(path), "/v1" + std::string(path)}) {
    for (const auto& [absent, explanation] : explanations_) {
      if (absent.ends_with('/') ? tried.starts_with(absent) : tried == absent) return explanation;
    }
  }
  return "GET /openapi.json lists the paths of this server";
}

std::string UrlTable::Allowed(std::string_view path) const {
  const std::string known = Known(path);
  std::set<std::string> methods;
  for (const Route& route : routes_) {
    if (!Match(route.pattern, known)) continue;
    methods.insert({route.method, "OPTIONS"});
    if (route.method == "GET") methods.insert("HEAD");
  }
  return fmt::format("{}", fmt::join(methods, ", "));
}

}  // namespace numoe::net
