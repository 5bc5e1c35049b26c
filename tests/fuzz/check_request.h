// Checks the properties of a request on which the engine relies, for any API, and those of a refusal on which
// clients rely.
//
// For the fuzz targets of the request readers; a failure is a failed CHECK.
#pragma once

#include <cmath>
#include <string_view>
#include <variant>

#include "common/base/check.h"
#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/preparation.h"

namespace numoe {

inline void CheckError(const net::ApiError& error) {
  NUMOE_CHECK(error.http_status >= 400 && error.http_status < 500) << error.message;
  for (const net::ErrorShape shape : {net::ErrorShape::kOpenAi, net::ErrorShape::kAnthropic}) {
    const auto json = nlohmann::json::parse(error.ToJson(shape));
    NUMOE_CHECK(json.at("error").at("message").is_string());
  }
}

inline void CheckRequest(const serving::GenerationRequest& request) {
  const engine::SamplingParams& s = request.sampling;
  NUMOE_CHECK(s.max_tokens.value_or(0) >= 0 && std::isfinite(s.temperature) && s.temperature >= 0);
  NUMOE_CHECK(s.top_p >= 0 && s.top_p <= 1 && s.min_p >= 0 && s.min_p <= 1 && s.min_tokens >= 0);
  NUMOE_CHECK(request.n >= 1 && request.best_of >= request.n && request.best_of <= limits::kChoicesMax);
  NUMOE_CHECK_NE(request.conversation.has_value(), !request.prompts.empty());
}

inline void CheckReader(std::string_view body, std::initializer_list<serving::RequestReader> readers) {
  const auto json = serving::ReadBody(body);
  if (const auto* error = std::get_if<net::ApiError>(&json)) return CheckError(*error);
  for (const serving::RequestReader& read : readers) {
    const auto parsed = read(std::get<nlohmann::ordered_json>(json), {});
    if (const auto* error = std::get_if<net::ApiError>(&parsed)) {
      CheckError(*error);
    } else {
      CheckRequest(std::get<serving::GenerationRequest>(parsed));
    }
  }
}

}  // namespace numoe
