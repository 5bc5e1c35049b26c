// Errors name fields that would change the answer; their values for "off", and unknown fields, are accepted.
#include "coordinator/serving/api/refused_fields.h"

#include <set>
#include <string>

#include "coordinator/serving/api/openai_request.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

std::string RefusedParam(const ordered_json& body) {
  const auto error = FindRefusedField(body);
  if (!error) return "";
  EXPECT_EQ(error->http_status, 400);
  EXPECT_THAT(error->message, HasSubstr("'" + error->param.value_or("") + "': expected no value"));
  return error->param.value_or("(none)");
}

TEST(RefusedFieldsTest, EveryFieldOccursOnceAndCanBeOff) {
  std::set<std::string> names;
  for (const RefusedField& field : RefusedFields()) {
    EXPECT_TRUE(names.insert(field.name).second) << field.name;
    for (const char* empty : {"null", "false", "\"\"", "[]", "{}"})
      EXPECT_EQ(RefusedParam({{field.name, ordered_json::parse(empty)}}), "") << field.name << empty;
    for (const ordered_json& off : ordered_json::parse(field.off))
      EXPECT_EQ(RefusedParam({{field.name, off}}), "") << field.name << off;
    EXPECT_EQ(RefusedParam({{field.name, 0.37}}), field.name);
    EXPECT_EQ(RefusedParam({{field.name, ordered_json::array({"x"})}}), field.name);
    EXPECT_EQ(RefusedParam({{"sampling_params", {{field.name, 0.37}}}}),
              std::string("sampling_params.") + field.name);
  }
}

TEST(RefusedFieldsTest, ValuesThatMeanOffAndThoseThatDoNot) {
  for (const char* body :
       {R"({"mirostat": 0, "mirostat_tau": 5, "typical_p": 1.0, "use_beam_search": false})",
        R"({"modalities": ["text"], "function_call": "auto", "prediction": {"x": 1}})",
        R"({"nobody_defines_this": 7})", R"({"messages": [{"tools": []}, 3], "x": 1})"})
    EXPECT_EQ(RefusedParam(ordered_json::parse(body)), "") << body;
  for (const auto& [body, param] : std::vector<std::pair<const char*, const char*>>{
           {R"({"mirostat": 2})", "mirostat"},
           {R"({"typical_p": 0.9})", "typical_p"},
           {R"({"use_beam_search": true})", "use_beam_search"},
           {R"({"modalities": ["text", "audio"]})", "modalities"},
           {R"({"functions": [{"name": "f"}]})", "functions"},
           {R"({"chat_template": "{{ x }}"})", "chat_template"},
           {R"({"messages": [{"role": "user"}, {"role": "system", "tools": [{}]}]})", "messages[1].tools"}})
    EXPECT_EQ(RefusedParam(ordered_json::parse(body)), param);
}

TEST(RefusedFieldsTest, TheRefusalSaysWhatToDo) {
  EXPECT_EQ(
      FindRefusedField({{"length_penalty", 2}})->message,
      "'length_penalty': expected no value or 1, found 2: this server samples one token after the other; "
      "n or best_of ask for several answers");
}

// A field with another name in another API is known, so it must not be dropped.
TEST(RefusedFieldsTest, FieldsWithOtherApisNamesAreNotDropped) {
  const auto param = [](const char* fields, bool chat) -> std::string {
    const ordered_json body = ordered_json::parse(
        std::string(chat ? R"({"messages": [{"role": "user", "content": "a"}], )" : R"({"prompt": "a", )") +
        fields + "}");
    const auto read = chat ? ReadChatRequest(body, {}) : ReadTextRequest(body, {});
    const auto* error = std::get_if<net::ApiError>(&read);
    return error == nullptr ? "(accepted)" : error->param.value_or("(none)");
  };
  EXPECT_EQ(param(R"("max_output_tokens": 5)", true), "max_output_tokens");
  EXPECT_EQ(param(R"("max_completion_tokens": 5)", false), "max_completion_tokens");
  EXPECT_EQ(param(R"("max_completion_tokens": 5, "max_tokens": 5)", false), "(accepted)");
  EXPECT_EQ(param(R"("stop_sequences": ["a"])", true), "stop_sequences");
  for (const bool chat : {false, true}) {
    EXPECT_EQ(param(R"("sampling_params": {"temperature": 0})", chat), "sampling_params");
    EXPECT_EQ(param(R"("sampling_params": {})", chat), "(accepted)");
    EXPECT_EQ(param(R"("best_of": 2, "stream": true)", chat), "best_of");
  }
  EXPECT_EQ(param(R"("parse_tool_calls": false)", true), "parse_tool_calls");
  EXPECT_EQ(param(R"("add_special_tokens": true)", true), "add_special_tokens");
}

}  // namespace
}  // namespace numoe::serving
