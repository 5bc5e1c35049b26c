// Which sampling parameters a server can lock, and at which values.
#include "coordinator/serving/api/sampling_fields.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::serving {
namespace {

using ::testing::HasSubstr;

// The list of names agrees with the reader of requests: a wrong value of each name is an error.
TEST(SamplingFieldsTest, EveryNameThatCanBeLockedIsRead) {
  for (const char* name :
       {"temperature", "top_p", "top_k", "min_p", "seed", "sampling_seed", "n", "best_of",
        "frequency_penalty", "presence_penalty", "repetition_penalty", "min_tokens", "min_new_tokens"}) {
    EXPECT_TRUE(CheckSamplingValue(name, 1).ok()) << CheckSamplingValue(name, 1);
    const absl::Status wrong = CheckSamplingValue(name, -1e300);
    EXPECT_THAT(std::string(wrong.message()), HasSubstr(name)) << wrong;
  }
}

TEST(SamplingFieldsTest, ErrorsOfNamesListTheParameters) {
  for (const char* name : {"tmperature", "", "logit_bias", "messages", "stop"})
    EXPECT_THAT(std::string(CheckSamplingValue(name, 1).message()), HasSubstr("top_k")) << name;
}

std::optional<net::ApiError> ReadTokenLists(const nlohmann::ordered_json& body, engine::SamplingParams& out) {
  JsonFields in(body);
  GenerationRequest request;
  ReadSampling(in, request);
  out = request.sampling;
  return in.error();
}

// Every answer of a request has a copy of its lists.
TEST(SamplingFieldsTest, ListsOfTokensHaveLimits) {
  engine::SamplingParams sampling;
  const nlohmann::ordered_json same = std::vector<unsigned>(100'000, 7);
  EXPECT_FALSE(ReadTokenLists({{"stop_token_ids", same}, {"allowed_token_ids", {9u, 7u, 9u}}}, sampling));
  EXPECT_EQ(sampling.stop_token_ids, std::vector<TokenId>{7});
  EXPECT_LT(sampling.stop_token_ids.capacity(), 100u);
  EXPECT_EQ(sampling.allowed_token_ids, (std::vector<TokenId>{7, 9}));
  std::vector<unsigned> many(1025);
  for (size_t i = 0; i < many.size(); ++i) many[i] = static_cast<unsigned>(i);
  const auto error = ReadTokenLists({{"stop_token_ids", many}}, sampling);
  ASSERT_TRUE(error);
  EXPECT_EQ(error->http_status, 400);
  EXPECT_EQ(error->param, "stop_token_ids");
  EXPECT_THAT(error->message, HasSubstr("at most 1024 different token ids, found 1025"));
}

TEST(SamplingFieldsTest, TokensOutsideTheVocabularyAreRefused) {
  EXPECT_FALSE(CheckTokenIds({.stop_token_ids = {99}, .allowed_token_ids = {0, 99}}, 100));
  const auto stop = CheckTokenIds({.stop_token_ids = {5, 100}}, 100);
  ASSERT_TRUE(stop);
  EXPECT_EQ(stop->param, "stop_token_ids");
  EXPECT_THAT(stop->message, HasSubstr("below 100"));
  EXPECT_THAT(stop->message, HasSubstr("found 100"));
  EXPECT_EQ(CheckTokenIds({.allowed_token_ids = {100}}, 100)->param, "allowed_token_ids");
}

TEST(SamplingFieldsTest, CountsAreLockedAtWholeNumbers) {
  EXPECT_TRUE(CheckSamplingValue("top_k", 40).ok());
  EXPECT_FALSE(CheckSamplingValue("top_k", 40.5).ok());
}

std::optional<uint64_t> SeedOf(const char* seed) {
  const auto body = nlohmann::ordered_json::parse(R"({"seed": )" + std::string(seed) + "}");
  JsonFields in(body);
  GenerationRequest request;
  ReadSampling(in, request);
  if (!in.error()) return request.sampling.seed;
  EXPECT_EQ(in.error()->param, "seed");
  return std::nullopt;
}

TEST(SamplingFieldsTest, SeedsHaveAll64Bits) {
  EXPECT_EQ(SeedOf("9223372036854775807"), uint64_t{INT64_MAX});
  EXPECT_EQ(SeedOf("-9223372036854775808"), uint64_t{1} << 63);
  EXPECT_EQ(SeedOf("-2"), UINT64_MAX - 1);
  EXPECT_EQ(SeedOf("9223372036854776000"), uint64_t{INT64_MAX}) << "as JavaScript writes the largest seed";
  EXPECT_EQ(SeedOf("-9223372036854776000"), uint64_t{1} << 63);
  EXPECT_EQ(SeedOf("4.0"), 4u);
  for (const char* wrong : {"9223372036854780000", "-9223372036854780000", "0.5", "1e30", "\"1\"", "true"})
    EXPECT_EQ(SeedOf(wrong), std::nullopt) << wrong;
}

// Clients of vLLM and llama.cpp send -1 for no seed; as a fixed seed it would always give the same answer.
TEST(SamplingFieldsTest, ASeedOfMinusOneMeansNoSeed) {
  const ordered_json fields = {{"seed", -1}};
  JsonFields in(fields);
  GenerationRequest request;
  ReadSampling(in, request);
  EXPECT_FALSE(in.error().has_value());
  EXPECT_EQ(request.sampling.seed, std::nullopt);
}

TEST(SamplingFieldsTest, TheModelsDefaultsApply) {
  GenerationRequest request;
  SetSamplingDefaults({.temperature = 0.7, .repetition_penalty = 1.05}, request);
  EXPECT_EQ(request.sampling.temperature, 0.7);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.05);
}

}  // namespace
}  // namespace numoe::serving
