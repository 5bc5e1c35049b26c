// What --lock-sampling accepts, and what it does to requests of each mode.
#include "coordinator/serving/api/sampling_locks.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;

constexpr char kThinks[] = R"("messages": [])";
constexpr char kInstant[] = R"("messages": [], "thinking": {"type": "disabled"})";
constexpr char kText[] = R"("prompt": "a")";

// The value that the request has for `name` after the locks were applied (null: none), or the error as text.
ordered_json Held(const std::vector<std::string>& locks, const std::string& request, const char* name,
                  const GenerationDefaults& defaults = {.temperature = 0.7}) {
  ordered_json body = ordered_json::parse("{" + request + "}");
  const auto error = ApplySamplingLocks(*ParseSamplingLocks(locks), defaults, body);
  if (error) {
    EXPECT_EQ(error->http_status, 400);
    EXPECT_TRUE(error->param.has_value());
    return error->message;
  }
  return body.value(name, ordered_json());
}

TEST(SamplingLocksTest, AValueIsLocked) {
  const std::vector<std::string> locks = {"temperature=0.5", "top_k=3"};
  EXPECT_EQ(Held(locks, kText, "temperature"), 0.5);
  EXPECT_EQ(Held(locks, R"("temperature": null)", "temperature"), 0.5);
  EXPECT_EQ(Held(locks, R"("temperature": 0.5, "top_k": 3.0)", "top_k"), 3);
  EXPECT_EQ(Held(locks, R"("temperature": 1)", ""),
            "'temperature': this server has locked it at 0.5, found 1; leave it out");
  EXPECT_THAT(Held(locks, R"("temperature": "0.5")", ""), HasSubstr("found \"0.5\""));
  EXPECT_EQ(Held({}, R"("temperature": 1)", "temperature"), 1);
}

// As Kimi-K3 recommends.
TEST(SamplingLocksTest, ARangeIsLockedAndADefaultInItIsKept) {
  const std::vector<std::string> locks = {"temperature=0.6..1.0"};
  for (const double inside : {0.6, 0.8, 1.0})
    EXPECT_EQ(Held(locks, R"("temperature": )" + std::to_string(inside), "temperature"), inside);
  EXPECT_EQ(Held(locks, R"("temperature": 0.5)", ""),
            "'temperature': this server has locked it at 0.6 to 1, found 0.5; leave it out");
  EXPECT_THAT(Held(locks, R"("temperature": 1.01)", ""), HasSubstr("0.6 to 1, found 1.01"));
  EXPECT_TRUE(Held(locks, kText, "temperature").is_null()) << "the model's default, 0.7";
  EXPECT_EQ(Held(locks, kText, "temperature", {.temperature = 0.2}), 0.6);
  EXPECT_EQ(Held(locks, kText, "temperature", {.temperature = 1.5}), 1.0);
  EXPECT_EQ(Held({"repetition_penalty=1.1..1.2"}, kText, "repetition_penalty"), 1.1);
}

// As Kimi-K2.5 recommends.
TEST(SamplingLocksTest, EachModeMayHaveItsOwnLock) {
  const std::vector<std::string> locks = {"thinking:temperature=1.0", "instant:temperature=0.6",
                                          "top_p=0.95"};
  EXPECT_EQ(Held(locks, kThinks, "temperature"), 1.0);
  EXPECT_EQ(Held(locks, kInstant, "temperature"), 0.6);
  EXPECT_EQ(Held(locks, R"("input": "a", "reasoning": {"effort": "none"})", "temperature"), 0.6);
  EXPECT_THAT(Held(locks, std::string(kThinks) + R"(, "temperature": 0.6)", ""),
              HasSubstr("locked it at 1, found"));
  EXPECT_THAT(Held(locks, std::string(kInstant) + R"(, "temperature": 1)", ""),
              HasSubstr("locked it at 0.6, found"));
  EXPECT_TRUE(Held(locks, kText, "temperature").is_null()) << "a text has no mode";
  for (const char* request : {kThinks, kInstant, kText}) EXPECT_EQ(Held(locks, request, "top_p"), 0.95);
}

TEST(SamplingLocksTest, AConversationWithoutThinkingFieldsHasTheModeOfItsDialect) {
  const SamplingLocks locks = *ParseSamplingLocks({"thinking:temperature=1.0", "instant:temperature=0.6"});
  const auto held = [&](const char* request, UnaskedThinking unasked) {
    ordered_json body = ordered_json::parse(request);
    EXPECT_FALSE(ApplySamplingLocks(locks, {}, body, unasked).has_value());
    return body["temperature"];
  };
  EXPECT_EQ(held(R"({"messages": []})", UnaskedThinking::kAsTrained), 1.0);
  EXPECT_EQ(held(R"({"messages": []})", UnaskedThinking::kOff), 0.6);
  EXPECT_EQ(held(R"({"messages": [], "thinking": {"type": "adaptive"}})", UnaskedThinking::kOff), 1.0);
}

TEST(SamplingLocksTest, AModesLockReplacesTheGeneralOne) {
  const std::vector<std::string> locks = {"instant:temperature=0.6", "temperature=1.0"};
  EXPECT_EQ(Held(locks, kThinks, "temperature"), 1.0);
  EXPECT_EQ(Held(locks, kInstant, "temperature"), 0.6);
  EXPECT_EQ(Held(locks, kText, "temperature"), 1.0);
}

TEST(SamplingLocksTest, OtherNamesAndPlacesDoNotAvoidTheLock) {
  EXPECT_THAT(Held({"seed=7"}, R"("sampling_seed": 8)", ""), HasSubstr("'sampling_seed'"));
  EXPECT_THAT(Held({"min_new_tokens=0..4"}, R"("min_tokens": 8)", ""), HasSubstr("'min_tokens'"));
  const std::vector<std::string> locks = {"temperature=0.5..1"};
  EXPECT_THAT(Held(locks, R"("temperature": 2, "sampling_params": {})", ""), HasSubstr("found 2"));
  EXPECT_THAT(Held(locks, R"("sampling_params": {"temperature": 2})", ""), HasSubstr("found 2"));
  EXPECT_THAT(Held(locks, R"("sampling_params": [{}, {"temperature": 2}])", ""), HasSubstr("found 2"));
  for (const char* params : {R"("sampling_params": {})", R"("sampling_params": [{}, {}])"})
    EXPECT_EQ(Held({"temperature=0.5"}, params, "temperature"), 0.5) << "no inner value can override it";
}

TEST(SamplingLocksTest, ErrorsOfTextsHaveAnExample) {
  const auto refusal = [](const std::vector<std::string>& texts) {
    return std::string(ParseSamplingLocks(texts).status().message());
  };
  for (const char* wrong :
       {"temperature", "temperature=", "=1", "temperature=a", "temperature=1..", "temperature=..1",
        "temperature=1..0.5", "temperature=0..1..2", "thinking:", "thinking:temperature", "1"}) {
    EXPECT_THAT(refusal({wrong}), HasSubstr("NAME=LOW..HIGH")) << wrong;
    EXPECT_THAT(refusal({wrong}), HasSubstr("thinking:temperature=1.0,instant:temperature=0.6")) << wrong;
  }
  EXPECT_THAT(refusal({"temperature=0.5..7"}), HasSubstr("0 to 2"));
  EXPECT_THAT(refusal({"temperature=nan"}), HasSubstr("LOW..HIGH"));
  EXPECT_THAT(refusal({"deep:temperature=1"}), HasSubstr("deep:temperature"));
  EXPECT_THAT(refusal({"temperature=1", "temperature=0..1"}), HasSubstr("temperature twice"));
  EXPECT_TRUE(ParseSamplingLocks({"temperature=1", "thinking:temperature=1", "instant:temperature=1"}).ok());
}

}  // namespace
}  // namespace numoe::serving
