// UrlTable: which handler answers which method and path, and whether a path needs a key.
//
// A pattern is a path in which {} stands for any one segment, whose value becomes a capture:
// "/v1/responses/{}". Clients whose base URL lacks /v1 find the same routes: a path without a pattern is
// looked up again below /v1. The table is filled once before serving; after that Find is a pure function and
// the table is thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
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
  bool open = false;                        // needs no key
  bool counted = true;                      // counts in the key's limit of concurrent requests
  ErrorShape errors = ErrorShape::kOpenAi;  // what its clients expect
  // Larger bodies are refused before they are read. Add sets it to 0 for GET and DELETE, which have no body.
  size_t body_max = limits::kHttpBodyBytesMax;
};

struct RouteMatch {
  const Route* route = nullptr;
  std::vector<std::string> captures;
  std::string path;  // in the form of the pattern, with /v1
};

class UrlTable {
 public:
  /// REQUIRES: the table has no route with this method and pattern yet.
  void Add(Route route);
  /// Answers everything that has no route, with any method.
  void AddFallback(Route route) { fallback_ = std::move(route); }
  /// The error that Find returns for everything that has no route, instead of 404 and 405.
  void RefuseOthers(ApiError error) { others_ = std::move(error); }
  /// Sets what Find's 404 says about `path`, or, if `path` ends with '/', about all paths that begin with it:
  /// why it does not exist and what to use instead.
  void Explain(std::string path, std::string explanation);
  /// Returns the route, or an error: 405 if the path exists with other methods, which Allowed lists, else
  /// 404.
  std::variant<RouteMatch, ApiError> Find(std::string_view method, std::string_view path) const;
  /// The methods of a path, separated by commas: "GET, HEAD, OPTIONS, POST"; "" if the path does not exist.
  std::string Allowed(std::string_view path) const;
  const std::vector<Route>& routes() const { return routes_; }

 private:
  bool Has(std::string_view path) const;
  /// `path`, or the path below /v1 that it stands for.
  std::string Known(std::string_view path) const;
  /// What the 404 of a path says after the path.
  std::string_view WhyAbsent(std::string_view path) const;

  std::vector<Route> routes_;
  std::vector<std::pair<std::string, std::string>> explanations_;  // path, text
  std::optional<Route> fallback_;
  std::optional<ApiError> others_;
};

}  // namespace numoe::net
