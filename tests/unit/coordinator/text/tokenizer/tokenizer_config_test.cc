// Control tokens and roles in tokenizer_config.json.
#include "coordinator/text/tokenizer/tokenizer_config.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

TEST(TokenizerConfigTest, RolesAreTextOrObjectsWithContent) {
  const auto config = ParseTokenizerConfig(
      R"({"bos_token": "<s>", "eos_token": {"content": "</s>", "lstrip": false}, "pad_token": null, "unk_token": 5, "mask_token": "m"})",
      "f");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->role_tokens, ElementsAre(Pair("bos_token", "<s>"), Pair("eos_token", "</s>")));
  EXPECT_TRUE(config->added_tokens.empty());
}

TEST(TokenizerConfigTest, TextsBeginWithAToken) {
  const auto adds = [](const char* text) { return ParseTokenizerConfig(text, "f"); };
  EXPECT_TRUE(adds(R"({"add_bos_token": true})")->add_bos_token);
  for (const char* no : {"{}", R"({"add_bos_token": false})", R"({"add_bos_token": null})"})
    EXPECT_FALSE(adds(no)->add_bos_token) << no;
  EXPECT_THAT(std::string(adds(R"({"add_bos_token": 1})").status().message()),
              HasSubstr("f: add_bos_token: expected true or false"));
}

TEST(TokenizerConfigTest, AddedTokensHaveIdsAndFlags) {
  const auto config = ParseTokenizerConfig(
      R"({"added_tokens_decoder": {"7": {"content": "<a>", "special": true}, "8": {"content": "<b>", "special": false}, "9": {"content": "<c>"}}})",
      "f");
  ASSERT_TRUE(config.ok()) << config.status();
  ASSERT_EQ(config->added_tokens.size(), 3u);
  EXPECT_EQ(config->added_tokens[0].first, "<a>");
  EXPECT_EQ(config->added_tokens[0].second.id, 7);
  EXPECT_TRUE(config->added_tokens[0].second.special);
  EXPECT_FALSE(config->added_tokens[1].second.special);
  EXPECT_FALSE(config->added_tokens[2].second.special);
}

TEST(TokenizerConfigTest, ErrorsNameTheFileAndTheEntry) {
  const auto error = [](const char* text) {
    return ParseTokenizerConfig(text, "dir/f.json").status().ToString();
  };
  EXPECT_THAT(error("{"), HasSubstr("dir/f.json"));
  EXPECT_THAT(error("[]"), HasSubstr("dir/f.json: expected a JSON object"));
  EXPECT_THAT(error(R"({"added_tokens_decoder": []})"),
              HasSubstr("dir/f.json: added_tokens_decoder: expected an object"));
  for (const char* entry :
       {R"("x": {"content": "a"})", R"("-1": {"content": "a"})", R"("12345678901": {"content": "a"})",
        R"("1": "a")", R"("1": {})", R"("1": {"content": 5})", R"("": {"content": "a"})"})
    EXPECT_THAT(error((R"({"added_tokens_decoder": {)" + std::string(entry) + "}}").c_str()),
                HasSubstr("expected an id and an object with content"))
        << entry;
}

TEST(TokenizerConfigTest, TheConfigOfAnAbsentFileIsEmpty) {
  const std::filesystem::path folder = std::filesystem::path(::testing::TempDir()) / "numoe_tokenizer_config";
  std::filesystem::create_directories(folder);
  std::filesystem::remove(folder / "tokenizer_config.json");
  const auto none = ReadTokenizerConfig(folder);
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_TRUE(none->role_tokens.empty());
  std::ofstream(folder / "tokenizer_config.json") << "{";
  EXPECT_THAT(ReadTokenizerConfig(folder).status().ToString(),
              HasSubstr((folder / "tokenizer_config.json").string()));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace numoe::text
