#include "coordinator/clients/serving_load/load_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "nlohmann/json.hpp"
#include "tests/support/canned_server.h"

namespace numoe::clients {
namespace {

using ::testing::HasSubstr;

// Every word is one token, as in most vocabularies.
class WordCounter final : public TokenCounter {
 public:
  absl::StatusOr<int> Count(std::string_view text) override {
    int words = 0;
    bool inside = false;
    for (const char c : text) {
      words += c != ' ' && !inside ? 1 : 0;
      inside = c != ' ';
    }
    return words;
  }
  std::string Describe() const override { return "words"; }
};

// A vocabulary of bytes, in which every word is several tokens.
class ByteCounter final : public TokenCounter {
 public:
  absl::StatusOr<int> Count(std::string_view text) override { return static_cast<int>(text.size()); }
  std::string Describe() const override { return "bytes"; }
};

std::string FileWith(const std::string& text) {
  const std::string path = testing::TempDir() + "/load_requests_test.json";
  std::ofstream(path) << text;
  return path;
}

TEST(RandomRequests, HaveExactlyTheRequestedTokens) {
  WordCounter words;
  ByteCounter bytes;
  const auto nano = CountByTokenizer("deploy/models/nano");
  ASSERT_TRUE(nano.ok()) << nano.status();
  for (TokenCounter* counter :
       {static_cast<TokenCounter*>(&words), static_cast<TokenCounter*>(&bytes), nano->get()}) {
    const auto requests =
        RandomRequests({.input_len = 100, .output_len = 7, .range_ratio = 1}, 20, 1, *counter);
    ASSERT_TRUE(requests.ok()) << requests.status();
    std::set<std::string> starts;
    for (const LoadRequest& request : *requests) {
      EXPECT_EQ(request.prompt_tokens, 100) << counter->Describe();
      EXPECT_EQ(*counter->Count(request.prompt), 100);
      EXPECT_EQ(request.output_tokens, 7);
      starts.insert(request.prompt.substr(0, 40));
    }
    EXPECT_EQ(starts.size(), 20u) << "no two share a prefix";
  }
}

TEST(RandomRequests, LengthsAreSpreadOverTheRange) {
  WordCounter counter;
  const auto requests =
      RandomRequests({.input_len = 40, .output_len = 20, .range_ratio = 0.5}, 2000, 3, counter);
  ASSERT_TRUE(requests.ok());
  std::set<int> inputs, outputs;
  for (const LoadRequest& request : *requests) {
    inputs.insert(request.prompt_tokens);
    outputs.insert(request.output_tokens);
  }
  EXPECT_EQ(*inputs.begin(), 20);
  EXPECT_EQ(*inputs.rbegin(), 40);
  EXPECT_EQ(inputs.size(), 21u);
  EXPECT_EQ(outputs.size(), 11u);
  EXPECT_EQ(*RandomRequests({.range_ratio = 0}, 1, 3, counter)->begin()->prompt.begin(), ' ');
}

TEST(RandomRequests, TheSeedDeterminesThePrompts) {
  WordCounter counter;
  const auto prompt = [&](uint64_t seed) {
    return (*RandomRequests({.input_len = 9}, 1, seed, counter))[0].prompt;
  };
  EXPECT_EQ(prompt(4), prompt(4));
  EXPECT_NE(prompt(4), prompt(5));
}

TEST(FileRequests, CustomRowsOfEveryShapeKeepTheirOrder) {
  WordCounter counter;
  const std::string path = FileWith(
      "{\"prompt\": \"one two\", \"output_tokens\": 5}\n\n"
      "{\"messages\": [{\"role\": \"user\", \"content\": \"three\"}, {\"role\": \"assistant\", \"content\": "
      "\"a b c\"}]}\n"
      "{\"conversations\": [{\"from\": \"human\", \"value\": \"four\"}]}\n{\"no_prompt\": 1}\n"
      "{\"prompt\": \"five\", \"output_tokens\": 18446744073709551614}\n");
  const auto requests = FileRequests({.path = path}, 6, 1, counter);
  ASSERT_TRUE(requests.ok()) << requests.status();
  std::vector<std::string> prompts;
  std::vector<int> outputs;
  for (const LoadRequest& request : *requests) {
    prompts.push_back(request.prompt);
    outputs.push_back(request.output_tokens);
  }
  EXPECT_EQ(prompts, (std::vector<std::string>{"one two", "three", "four", "five", "one two", "three"}));
  EXPECT_EQ(outputs, (std::vector<int>{5, 3, 256, 256, 5, 3}));
  EXPECT_EQ((*requests)[0].prompt_tokens, 2);
  EXPECT_EQ((*FileRequests({.path = path, .output_len = 9}, 1, 1, counter))[0].output_tokens, 9);
}

TEST(FileRequests, ShareGptRowsThatOtherClientsLeaveOutAreLeftOut) {
  WordCounter counter;
  const auto words = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i) text += " w";
    return text;
  };
  nlohmann::json rows = nlohmann::json::array();
  const std::pair<int, int> lengths[] = {{3, 10},   {10, 3},      {4, 4},  {1024, 1024},
                                         {1025, 5}, {1000, 1049}, {20, 30}};
  for (const auto& [in, out] : lengths)
    rows.push_back({{"id", "x"}, {"conversations", {{{"value", words(in)}}, {{"value", words(out)}}}}});
  const auto requests = FileRequests({.path = FileWith(rows.dump(1)), .sharegpt = true}, 100, 1, counter);
  ASSERT_TRUE(requests.ok()) << requests.status();
  std::set<std::pair<int, int>> found;
  for (const LoadRequest& request : *requests) found.emplace(request.prompt_tokens, request.output_tokens);
  EXPECT_EQ(found, (std::set<std::pair<int, int>>{{4, 4}, {20, 30}, {1024, 1024}}));
}

TEST(FileRequests, ErrorsNameTheFile) {
  WordCounter counter;
  EXPECT_THAT(std::string(FileRequests({.path = "/nowhere.json"}, 1, 1, counter).status().message()),
              HasSubstr("/nowhere.json: cannot be opened"));
  for (const char* text :
       {"[{\"prompt\": \"x\"}, {", "[1, 2", "{\"prompt\": ", "[]", "", "{}\n{\"text\": 5}", "[[[]]]"}) {
    const auto requests = FileRequests({.path = FileWith(text)}, 1, 1, counter);
    EXPECT_FALSE(requests.ok()) << text;
    EXPECT_THAT(std::string(requests.status().message()), HasSubstr("load_requests_test.json")) << text;
  }
}

TEST(CountByServer, ReadsEveryServersAnswer) {
  std::string reply;
  CannedServer server([&](const CannedRequest&) { return JsonReply(reply == "none" ? 404 : 200, reply); });
  const auto client = *net::HttpClient::Create(*net::ParseUrl(server.url()), "");
  reply = R"({"count":7,"max_model_len":1000,"tokens":[1,2]})";
  auto counter = CountByServer(*client, "m");
  ASSERT_TRUE(counter.ok()) << counter.status();
  EXPECT_EQ(*(*counter)->Count("x"), 7);
  EXPECT_EQ((*counter)->Describe(), server.url() + "/tokenize");
  reply = R"({"tokens":[1,2,3]})";
  EXPECT_EQ(*(*counter)->Count("x"), 3);
  const auto asked = nlohmann::json::parse(server.requests().back().body);
  EXPECT_EQ(asked["prompt"], "x");
  EXPECT_EQ(asked["model"], "m");
  EXPECT_EQ(asked["add_special_tokens"], false);
  reply = "[]";
  EXPECT_FALSE((*counter)->Count("x").ok());
  reply = "none";
  EXPECT_EQ(CountByServer(*client, "m").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace numoe::clients
