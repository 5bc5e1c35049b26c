// Tokens are counted by a server, in either format, or by a tokenizer on this machine.
#include "coordinator/clients/serving_load/token_counter.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/canned_server.h"

namespace numoe::clients {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<net::HttpClient> ClientOf(const CannedServer& server) {
  return *net::HttpClient::Create(*net::ParseUrl(server.url()), "");
}

TEST(TokenCounterTest, AServersCountOrTheLengthOfItsList) {
  for (const char* shape : {R"({"count": %, "tokens": []})", R"({"tokens": [%]})"}) {
    const bool count = std::string(shape).find("count") != std::string::npos;
    CannedServer server([&](const CannedRequest& request) {
      const size_t words = nlohmann::json::parse(request.body).at("prompt").get<std::string>().size();
      std::string filling = std::to_string(words);
      if (!count) {
        filling = "1";
        for (size_t i = 1; i < words; ++i) filling += ",1";
      }
      return JsonReply(200, std::string(shape).replace(std::string(shape).find('%'), 1, filling));
    });
    const auto client = ClientOf(server);
    const auto counter = CountByServer(*client, "m");
    ASSERT_TRUE(counter.ok()) << counter.status();
    EXPECT_EQ(*(*counter)->Count("abcde"), 5) << shape;
    EXPECT_EQ((*counter)->Describe(), server.url() + "/tokenize");
    const auto body = nlohmann::json::parse(server.requests().back().body);
    EXPECT_EQ(body.at("content"), "abcde") << "llama.cpp's name";
    EXPECT_EQ(body.at("model"), "m");
    EXPECT_EQ(body.at("add_special_tokens"), false);
  }
}

TEST(TokenCounterTest, ServersWithoutTokenizeAndOtherAnswersAreErrors) {
  CannedServer none([](const CannedRequest&) { return JsonReply(404, "{}"); });
  const auto client = ClientOf(none);
  EXPECT_TRUE(absl::IsNotFound(CountByServer(*client, "m").status())) << CountByServer(*client, "m").status();
  for (const char* reply : {"{}", "[1]", "5", "no JSON", R"({"count": "3"})", R"({"count": -1})"}) {
    CannedServer strange([&](const CannedRequest&) { return JsonReply(200, reply); });
    const auto other = ClientOf(strange);
    EXPECT_THAT(CountByServer(*other, "m").status().ToString(),
                HasSubstr("expected an object with count or tokens"))
        << reply;
  }
}

TEST(TokenCounterTest, ATokenizerCountsTextWithoutControlTokens) {
  const std::string folder = "tests/unit/coordinator/text/tokenizer/testdata/qwen3";
  const auto counter = CountByTokenizer(folder);
  ASSERT_TRUE(counter.ok()) << counter.status();
  EXPECT_EQ(*(*counter)->Count(""), 0);
  EXPECT_GT(*(*counter)->Count("<|im_end|>"), 1) << "the name of a control token is text";
  EXPECT_EQ((*counter)->Describe(), folder);
  EXPECT_FALSE(CountByTokenizer("tests/unit").ok());
}

}  // namespace
}  // namespace numoe::clients
