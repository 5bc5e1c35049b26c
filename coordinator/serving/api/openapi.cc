#include "coordinator/serving/api/openapi.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

ordered_json Ref(const std::string& name) { return {{"$ref", "#/components/" + name}}; }

ordered_json Content(const char* type, const char* schema) {
  return {{type, {{"schema", Ref(std::string("schemas/") + schema)}}}};
}

// "/v1/responses/{}" becomes "/v1/responses/{response_id}": the parameter is named after the segment before
// it. If two follow each other, the second one has a number.
std::string NamedPath(const std::string& pattern, std::vector<std::string>& names) {
  std::string path;
  size_t from = 0;
  for (size_t at; (at = pattern.find("{}", from)) != std::string::npos; from = at + 2) {
    path += pattern.substr(from, at - from);
    std::string name = path.substr(0, path.size() - 1);
    name = name.substr(name.rfind('/') + 1);
    if (!name.empty() && name.back() == 's') name.pop_back();
    const bool second = !name.empty() && name.back() == '}';
    names.push_back(second ? fmt::format("{}_{}", names.back(), names.size() + 1) : name + "_id");
    path += "{" + names.back() + "}";
  }
  return path + pattern.substr(from);
}

std::string OperationId(const net::Route& route) {
  std::string id = route.method + route.pattern;
  std::transform(id.begin(), id.end(), id.begin(),
                 [](unsigned char c) { return std::isalnum(c) ? static_cast<char>(std::tolower(c)) : '_'; });
  return id;
}

const RouteSchemas* Described(const net::Route& route) {
  for (const RouteSchemas& described : DescribedRoutes()) {
    if (route.method == described.method && route.pattern == described.pattern) return &described;
  }
  return nullptr;
}

ordered_json Operation(const net::Route& route, const std::vector<std::string>& names) {
  ordered_json operation = {{"operationId", OperationId(route)}, {"summary", route.summary}};
  for (const std::string& name : names) {
    operation["parameters"].push_back(
        {{"name", name}, {"in", "path"}, {"required", true}, {"schema", {{"type", "string"}}}});
  }
  ordered_json good = {{"description", "The result"}};
  if (const RouteSchemas* schemas = Described(route); schemas != nullptr) {
    if (schemas->request != nullptr) {
      operation["requestBody"] = {{"required", true},
                                  {"content", Content("application/json", schemas->request)}};
    }
    if (schemas->answer != nullptr) good["content"] = Content("application/json", schemas->answer);
    if (schemas->event != nullptr) good["content"].update(Content("text/event-stream", schemas->event));
  }
  const bool anthropic = route.errors == net::ErrorShape::kAnthropic;
  operation["responses"] = {{"200", good},
                            {"default", Ref(anthropic ? "responses/AnthropicError" : "responses/Error")}};
  if (route.open) operation["security"] = ordered_json::array();
  return operation;
}

ordered_json ErrorResponse(const char* schema) {
  return {{"description", "An error"}, {"content", Content("application/json", schema)}};
}

}  // namespace

ordered_json OpenApiDocument(const net::UrlTable& urls, const std::string& version) {
  ordered_json paths = ordered_json::object();
  for (const net::Route& route : urls.routes()) {
    std::vector<std::string> names;
    const std::string path = NamedPath(route.pattern, names);
    std::string method = route.method;
    std::transform(method.begin(), method.end(), method.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    paths[path][method] = Operation(route, names);
  }
  ordered_json security = {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}},
                           {"x_api_key", {{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}}}};
  return {{"openapi", "3.1.0"},
          {"info",
           {{"title", "NUMoE"},
            {"version", version},
            {"description", "Mixture-of-experts models with the APIs of OpenAI, Anthropic and SGLang"}}},
          {"paths", std::move(paths)},
          {"components",
           {{"schemas", OpenApiSchemas()},
            {"responses",
             {{"Error", ErrorResponse("Error")}, {"AnthropicError", ErrorResponse("AnthropicError")}}},
            {"securitySchemes", std::move(security)}}},
          {"security", ordered_json::array(
                           {{{"bearer", ordered_json::array()}}, {{"x_api_key", ordered_json::array()}}})}};
}

}  // namespace numoe::serving
