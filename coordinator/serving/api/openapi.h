// /openapi.json: what this server has, as an OpenAPI 3.1 document.
//
// Made from the table's list, so that no route is missing; the objects of the main ones are described in
// openapi_schemas.cc, as far as clients need it: unknown fields are accepted everywhere. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "coordinator/net/http/url_table.h"
#include "nlohmann/json.hpp"

namespace numoe::serving {

nlohmann::ordered_json OpenApiDocument(const net::UrlTable& urls, const std::string& version);

/// The names of what a route takes and answers among the schemas; nullptr: nothing that is described.
struct RouteSchemas {
  const char* method;
  const char* pattern;
  const char* request;
  const char* answer;
  const char* event;  // of its stream
};
const std::vector<RouteSchemas>& DescribedRoutes();
/// components.schemas
nlohmann::ordered_json OpenApiSchemas();

}  // namespace numoe::serving
