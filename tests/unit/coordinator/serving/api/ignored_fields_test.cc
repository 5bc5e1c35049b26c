// Fields that no reader looked up are named, and fields that cannot change an answer are not.
#include "coordinator/serving/api/ignored_fields.h"

#include "coordinator/serving/api/api_limits.h"
#include "coordinator/serving/api/messages_request.h"
#include "coordinator/serving/api/native_request.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/responses_request.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> IgnoredBy(const std::variant<GenerationRequest, net::ApiError>& read) {
  const auto* request = std::get_if<GenerationRequest>(&read);
  if (request == nullptr) ADD_FAILURE() << std::get<net::ApiError>(read).message;
  return request == nullptr ? std::vector<std::string>() : request->ignored_fields;
}

TEST(IgnoredFieldsTest, EveryDialectNamesWhatItDoesNotRead) {
  const ordered_json messages = {{{"role", "user"}, {"content", "a"}}};
  EXPECT_THAT(IgnoredBy(ReadChatRequest({{"zoo", 1}, {"messages", messages}, {"verbosity", "low"}}, {})),
              ElementsAre("zoo", "verbosity"));
  EXPECT_THAT(IgnoredBy(ReadTextRequest({{"prompt", "a"}, {"reasoning_effort", "low"}}, {})),
              ElementsAre("reasoning_effort"))
      << "another route obeys it, and this one does not";
  EXPECT_THAT(
      IgnoredBy(ReadMessagesRequest({{"messages", messages}, {"max_tokens", 1}, {"top_logprobs", 2}}, {})),
      ElementsAre("top_logprobs"));
  ResponsesFields fields;
  EXPECT_THAT(IgnoredBy(ReadResponsesRequest(
                  {{"input", "a"}, {"zoo", 1}}, {}, [](const std::string&) { return std::nullopt; }, fields)),
              ElementsAre("zoo"));
  EXPECT_THAT(IgnoredBy(ReadNativeRequest(
                  {{"text", "a"}, {"sampling_params", {{"top_x", 1}, {"mirostat_tau", 5}}}, {"zoo", 1}}, {})),
              ElementsAre("zoo", "sampling_params.top_x"));
}

TEST(IgnoredFieldsTest, WhatCannotChangeAnAnswerIsNotNamed) {
  EXPECT_THAT(
      IgnoredBy(ReadTextRequest(
          ordered_json::parse(
              R"({"prompt": "a", "user": "u", "metadata": {"a": "b"}, "cache_prompt": true, "mirostat": 0,
                      "mirostat_tau": 5, "zoo": null, "temperature": 0, "max_tokens": 5, "length_penalty": 1})"),
          {})),
      IsEmpty());
}

TEST(IgnoredFieldsTest, NamesAreBoundedAndHaveNoTextOfTheClients) {
  ordered_json root = ordered_json::object();
  root["two words"] = root["line\r\nbreak"] = root["\xC3\xA9"] = root["a,b"] = root[""] = 1;
  root[std::string(limits::kIgnoredFieldBytesMax, 'x')] = 1;
  root[std::string(limits::kIgnoredFieldBytesMax + 1, 'y')] = 1;
  EXPECT_THAT(IgnoredFields(JsonFields(root)),
              ElementsAre("?", "?", "?", "?", "?", std::string(limits::kIgnoredFieldBytesMax, 'x'), "?"));
  ordered_json many = ordered_json::object();
  for (int i = 0; i < 100; ++i) many["f" + std::to_string(i)] = 1;
  const std::vector<std::string> names = IgnoredFields(JsonFields(many));
  EXPECT_EQ(names.size(), limits::kIgnoredFieldsMax);
  EXPECT_EQ(names.front(), "f0");
  EXPECT_EQ(names.back(), "...");
}

TEST(IgnoredFieldsTest, TheHeaderListsThem) {
  EXPECT_THAT(IgnoredFieldsHeaders({}), IsEmpty());
  EXPECT_THAT(IgnoredFieldsHeaders({"a", "b"}), ElementsAre(std::pair("X-NUMoE-Ignored-Fields", "a, b")));
}

TEST(IgnoredFieldsTest, OneLineAMinuteIsLogged) {
  const auto later = std::chrono::steady_clock::now() + std::chrono::hours(1);
  constexpr std::chrono::seconds kPause{limits::kIgnoredFieldsLogSeconds};
  EXPECT_FALSE(LogIgnoredFields("r", {}, later));
  EXPECT_TRUE(LogIgnoredFields("r", {"a"}, later));
  EXPECT_FALSE(LogIgnoredFields("r", {"b"}, later + kPause / 2));
  EXPECT_TRUE(LogIgnoredFields("r", {"b"}, later + kPause));
}

}  // namespace
}  // namespace numoe::serving
