#include "coordinator/router/backend_health.h"

#include <fmt/format.h>

#include "common/json/json_reader.h"

namespace numoe::router {
namespace {

std::string Field(const nlohmann::ordered_json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

HealthAnswer ReadHealth(int http_status, std::string_view body) {
  if (http_status == 200) return {BackendHealth::kReady, ""};
  const auto json = ParseBoundedJson(body);
  if (!json.ok() || !json->is_object())
    return {BackendHealth::kOut, fmt::format("its /health answers {}", http_status)};
  const std::string status = Field(*json, "status"), detail = Field(*json, "detail");
  const bool waits = status == "degraded" || status == "stuck";
  return {waits ? BackendHealth::kDegraded : BackendHealth::kOut,
          fmt::format("{} {}{}{}", http_status, Printable(status), detail.empty() ? "" : ", ",
                      Printable(detail))};
}

std::string ErrorCodeOf(std::string_view body) {
  const auto json = ParseBoundedJson(body);
  if (!json.ok() || !json->is_object()) return "";
  const auto error = json->find("error");
  return error != json->end() && error->is_object() ? Field(*error, "code") : "";
}

}  // namespace numoe::router
