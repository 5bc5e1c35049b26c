// Bodies of clients and backends that the router reads: a request has few marks and shares them with its own
// beginning, a health answer becomes one line, and merged lists are JSON.
#include <algorithm>
#include <string>

#include "common/base/check.h"
#include "coordinator/router/backend_health.h"
#include "coordinator/router/merged_replies.h"
#include "coordinator/router/prompt_prefix.h"
#include "nlohmann/json.hpp"

namespace numoe {
namespace {

constexpr size_t kMarksMax = 300;

void CheckPrompt(const std::string& body) {
  const router::PromptPrefix prompt = router::ReadPromptPrefix(body);
  NUMOE_CHECK_LE(prompt.marks.size(), kMarksMax);
  NUMOE_CHECK_LE(prompt.marks.empty() ? 0 : router::MarkBytes(prompt.marks.size() - 1), prompt.bytes);
  NUMOE_CHECK(prompt.marks == router::ReadPromptPrefix(body).marks);
  // Another turn keeps the marks of the turns before.
  auto json = nlohmann::ordered_json::parse(body, nullptr, false);
  if (prompt.marks.empty() || !json.is_object() || !json.contains("messages") ||
      !json["messages"].is_array() || json.contains("input") || json.contains("prompt") ||
      json.contains("text") || json.contains("input_ids"))
    return;
  json["messages"].push_back({{"role", "user"}, {"content", "and what then?"}});
  const router::PromptPrefix longer =
      router::ReadPromptPrefix(json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::ignore));
  NUMOE_CHECK(longer.marks.empty() ||
              std::equal(prompt.marks.begin(), prompt.marks.end(), longer.marks.begin()));
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  numoe::CheckPrompt(text);
  const numoe::router::HealthAnswer health = numoe::router::ReadHealth(503, text);
  NUMOE_CHECK(health.health != numoe::router::BackendHealth::kReady);
  NUMOE_CHECK_EQ(health.detail.find('\n'), std::string::npos);
  for (const auto merge :
       {numoe::router::MergeModels, numoe::router::MergeSums, numoe::router::MergeServerInfo}) {
    for (const auto& merged : {merge({{"a", text}, {"b", R"({"data": [{"id": "x"}], "n": 1})"}}),
                               merge({{"a", text}, {"b", text}})})
      NUMOE_CHECK(nlohmann::json::parse(merged, nullptr, false).is_object());
  }
  return 0;
}
