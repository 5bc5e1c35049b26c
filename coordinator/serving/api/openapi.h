// /openapi.json: the routes of this server as an OpenAPI 3.1 document.
//
// Made from the table of routes, so that none is missing. openapi_schemas.cc describes the objects of the
// main routes as far as clients need it: unknown fields are accepted everywhere. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "coordinator/net/http/url_table.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

nlohmann::ordered_json OpenApiDocument(const net::UrlTable& urls, const std::string& version);

/// The names of the schemas of a route's request and answer; nullptr if it is not described.
struct RouteSchemas {
  const char* method;
  const char* pattern;
  const char* request;
  const char* answer;
  const char* event;  // one event of its stream
};
const std::vector<RouteSchemas>& DescribedRoutes();
/// components.schemas
nlohmann::ordered_json OpenApiSchemas();

}  // namespace numoe::serving
