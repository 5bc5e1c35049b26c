// What clients send: any body becomes a request within its limits, or an error object with a 4xx status.
#include <cmath>
#include <string_view>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "coordinator/api/openai_request.h"
#include "coordinator/api/preparation.h"

namespace numoe {
namespace {

void CheckError(const ApiError& error) {
  NUMOE_CHECK(error.http_status >= 400 && error.http_status < 500) << error.message;
  for (const ErrorShape shape : {ErrorShape::kOpenAi, ErrorShape::kAnthropic}) {
    const auto json = nlohmann::json::parse(error.ToJson(shape));
    NUMOE_CHECK(json.at("error").at("message").is_string());
  }
}

void CheckRequest(const GenerationRequest& request) {
  const SamplingParams& s = request.sampling;
  NUMOE_CHECK(s.max_tokens >= 0 && std::isfinite(s.temperature) && s.temperature >= 0);
  NUMOE_CHECK(s.top_p >= 0 && s.top_p <= 1 && s.min_p >= 0 && s.min_p <= 1 && s.min_tokens >= 0);
  NUMOE_CHECK(request.n >= 1 && request.best_of >= request.n && request.best_of <= limits::kChoicesMax);
  NUMOE_CHECK_NE(request.conversation.has_value(), !request.prompts.empty());
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto json = numoe::ReadBody(body);
  if (const auto* error = std::get_if<numoe::ApiError>(&json)) {
    numoe::CheckError(*error);
    return 0;
  }
  const auto& root = std::get<nlohmann::ordered_json>(json);
  for (const auto& parsed : {numoe::ReadChatRequest(root, {}), numoe::ReadTextRequest(root, {})}) {
    if (const auto* error = std::get_if<numoe::ApiError>(&parsed)) {
      numoe::CheckError(*error);
    } else {
      numoe::CheckRequest(std::get<numoe::GenerationRequest>(parsed));
    }
  }
  return 0;
}
