// A template from an unknown publisher: parsing and rendering any template end within their limits, with text
// or with an error of one line.
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_template.h"

namespace numoe {
namespace {

void CheckError(const absl::Status& status) {
  NUMOE_CHECK_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status.ToString();
}

const text::ChatTemplateInput& Conversation() {
  static const text::ChatTemplateInput input{
      .messages = nlohmann::ordered_json::parse(R"([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Grüße <|im_end|>"},
        {"role": "assistant", "content": "", "reasoning_content": "hm",
         "tool_calls": [{"id": "f:0", "type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5]}}}]},
        {"role": "tool", "tool_call_id": "f:0", "content": "3"}])"),
      .tools = nlohmann::ordered_json::parse(R"([{"type": "function", "function": {"name": "f"}}])"),
      .add_generation_prompt = true,
      .kwargs = nlohmann::ordered_json::parse(R"({"thinking": true})"),
      .role_tokens = {{"bos_token", "[BOS]"}, {"eos_token", "[EOS]"}}};
  return input;
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view source(reinterpret_cast<const char*>(data), size);
  const auto parsed = numoe::text::ChatTemplate::Parse(source, "fuzz");
  if (!parsed.ok()) {
    numoe::CheckError(parsed.status());
    return 0;
  }
  const auto segments = (*parsed)->Render(numoe::Conversation());
  if (!segments.ok()) numoe::CheckError(segments.status());
  return 0;
}
