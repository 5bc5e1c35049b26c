// Fields that would change the answer are refused by name; their values for "off", and unknown fields, pass.
#include "coordinator/serving/api/refused_fields.h"

#include <set>
#include <string>

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

TEST(RefusedFieldsTest, EveryFieldHasItsNameOnceAndAWayToBeOff) {
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
  EXPECT_EQ(FindRefusedField({{"length_penalty", 2}})->message,
            "'length_penalty': expected no value or 1, found 2: this server draws tokens one by one; ask for "
            "several answers with n or best_of");
}

}  // namespace
}  // namespace numoe::serving
