// What clients send: any body becomes a request within its limits, or an error object with a 4xx status.
#include <cmath>
#include <string_view>

#include "common/base/check.h"
#include "coordinator/http/completion_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  for (const bool chat : {true, false}) {
    const auto parsed = numoe::ParseCompletionRequest(body, chat, {});
    if (const auto* error = std::get_if<numoe::ApiError>(&parsed)) {
      NUMOE_CHECK(error->http_status >= 400 && error->http_status < 500) << error->message;
      const auto json = nlohmann::json::parse(error->ToJson());
      NUMOE_CHECK(json.at("error").at("message").is_string());
      continue;
    }
    const auto& request = std::get<numoe::CompletionRequest>(parsed);
    const numoe::SamplingParams& s = request.sampling;
    NUMOE_CHECK(s.max_tokens >= 0 && std::isfinite(s.temperature) && s.temperature >= 0);
    NUMOE_CHECK(s.top_p >= 0 && s.top_p <= 1 && s.min_p >= 0 && s.min_p <= 1);
  }
  return 0;
}
