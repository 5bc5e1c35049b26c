// Bodies of clients of /v1/responses: any body becomes a request within its limits, or an error object with a
// 4xx status, also after any other body.
#include "coordinator/serving/api/responses_request.h"
#include "tests/fuzz/check_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  const auto read = [](const nlohmann::ordered_json& json, const numoe::GenerationDefaults& defaults) {
    numoe::serving::ResponsesFields fields;
    const auto history = [](const std::string&) -> std::optional<nlohmann::ordered_json> {
      return nlohmann::ordered_json::parse(R"([{"role": "user", "content": "x"}])");
    };
    auto parsed = numoe::serving::ReadResponsesRequest(json, defaults, history, fields);
    if (std::holds_alternative<numoe::serving::GenerationRequest>(parsed)) {
      NUMOE_CHECK(!fields.input.empty() && fields.repeated.contains("tools"));
      for (const auto& item : fields.input) NUMOE_CHECK(item.is_object());
    }
    return parsed;
  };
  numoe::CheckReader(body, {read});
  return 0;
}
