// UrlTable: which handler answers which method and path, and who may ask.
//
// A pattern is a path whose {} segments match any one segment, which becomes a capture: "/v1/responses/{}".
// Clients whose base URL lacks /v1 find the routes below it, too: a path that no pattern has is looked for
// there. Filled once before serving; Find is a pure function of it. Thread-safe from then on.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "common/base/limits.h"
#include "coordinator/net/http/api_error.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::net {

struct Route {
  std::string method;
  std::string pattern;
  std::string summary;  // one line, for the list of routes
  std::function<void(std::shared_ptr<Exchange>)> handle;
  bool open = false;                        // asked without a key
  bool counted = true;                      // among the requests that its key may have at once
  ErrorShape errors = ErrorShape::kOpenAi;  // what its clients expect
  // Larger bodies are refused before they are read. Add makes it 0 for GET and DELETE, which take none.
  size_t body_max = limits::kHttpBodyBytesMax;
};

struct RouteMatch {
  const Route* route = nullptr;
  std::vector<std::string> captures;
  std::string path;  // as the pattern has it
};

class UrlTable {
 public:
  /// REQUIRES: no route of this method and pattern yet.
  void Add(Route route);
  /// Has everything that has no route, whatever its method.
  void AddFallback(Route route) { fallback_ = std::move(route); }
  /// What Find says of everything that has no route, instead of 404 and 405.
  void RefuseOthers(ApiError error) { others_ = std::move(error); }
  /// The route; or 404, or 405 for a path that other methods have, which Allowed lists.
  std::variant<RouteMatch, ApiError> Find(std::string_view method, std::string_view path) const;
  /// Methods that a path has, separated by commas: "GET, HEAD, OPTIONS, POST"; "": there is no such path.
  std::string Allowed(std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  bool Has(std::string_view path) const;
  /// `path`, or the one below /v1 that it stands for.
  std::string Known(std::string_view path) const;

  std::vector<Route> routes_;
  std::optional<Route> fallback_;
  std::optional<ApiError> others_;
};

}  // namespace numoe::net
