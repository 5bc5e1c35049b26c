// tokenizer.json files that must be refused: each is the valid one of testdata/qwen3 with a single change.
#include "coordinator/text/tokenizer/hf_tokenizer.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "common/weights/mapped_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace numoe::text {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

class HfTokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto text =
        ReadTextFile("tests/unit/coordinator/text/tokenizer/testdata/qwen3/tokenizer.json", 1 << 26);
    ASSERT_TRUE(text.ok()) << text.status();
    good_ = json::parse(*text);
    dir_ = std::filesystem::path(::testing::TempDir()) / ("hf_tokenizer_test_" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  std::string LoadChanged(const std::function<void(json&)>& change) {
    json root = good_;
    change(root);
    std::ofstream(dir_ / "tokenizer.json") << root;
    return LoadHfTokenizer(dir_).status().ToString();
  }
  std::string LoadWith(const std::string& pointer, const json& value) {
    return LoadChanged([&](json& root) { root[json::json_pointer(pointer)] = value; });
  }

  json good_;
  std::filesystem::path dir_;
};

TEST_F(HfTokenizerTest, TheUnchangedFileLoads) {
  EXPECT_EQ(LoadChanged([](json&) {}), "OK");
}

TEST_F(HfTokenizerTest, TextsBeginWithATokenIfTheConfigurationSaysSo) {
  std::ofstream(dir_ / "tokenizer.json") << good_;
  const auto first = [this](const char* config) {
    std::ofstream(dir_ / "tokenizer_config.json") << config;
    return (*LoadHfTokenizer(dir_))->FirstToken();
  };
  EXPECT_EQ(first(R"({"bos_token": "<|im_end|>"})"), std::nullopt);
  EXPECT_NE(first(R"({"bos_token": "<|im_end|>", "add_bos_token": true})"), std::nullopt);
  EXPECT_EQ(first(R"({"add_bos_token": true})"), std::nullopt) << "there is no such token";
  std::filesystem::remove(dir_ / "tokenizer_config.json");
}

// nlohmann's typed accessors throw on these fields; the result must be an error that names the field.
TEST_F(HfTokenizerTest, FieldsOfAnotherTypeAreErrors) {
  EXPECT_THAT(LoadWith("/model/type", 5), HasSubstr("model.type"));
  EXPECT_THAT(LoadWith("/model/ignore_merges", "yes"), HasSubstr("ignore_merges"));
  EXPECT_THAT(LoadWith("/pre_tokenizer/pretokenizers/0/behavior", 1), HasSubstr("pre_tokenizer"));
  EXPECT_THAT(LoadWith("/pre_tokenizer/pretokenizers/0/invert", nullptr), HasSubstr("invert"));
  EXPECT_THAT(LoadWith("/pre_tokenizer/pretokenizers/1/add_prefix_space", nullptr),
              HasSubstr("add_prefix_space"));
  EXPECT_THAT(LoadWith("/added_tokens/0/special", nullptr), HasSubstr("special"));
  EXPECT_THAT(LoadWith("/added_tokens/0/lstrip", "x"), HasSubstr("lstrip"));
}

TEST_F(HfTokenizerTest, ErrorsNameUnsupportedComponents) {
  EXPECT_THAT(LoadWith("/normalizer", {{"type", "NFKC"}}), HasSubstr("found NFKC"));
  EXPECT_THAT(LoadWith("/pre_tokenizer", {{"type", "Metaspace"}}), HasSubstr("Metaspace"));
  EXPECT_THAT(LoadWith("/decoder", {{"type", "WordPiece"}}),
              HasSubstr("decoder: expected ByteLevel, found WordPiece"));
  EXPECT_THAT(LoadWith("/model/byte_fallback", true), HasSubstr("model.byte_fallback"));
  EXPECT_THAT(LoadWith("/model/dropout", 0.1), HasSubstr("model.dropout"));
  EXPECT_THAT(LoadWith("/model/end_of_word_suffix", "</w>"), HasSubstr("model.end_of_word_suffix"));
  EXPECT_THAT(LoadWith("/pre_tokenizer/pretokenizers/0/invert", true), HasSubstr("invert false"));
  EXPECT_THAT(LoadChanged([](json& root) { root["pre_tokenizer"]["pretokenizers"].erase(1); }),
              HasSubstr("ByteLevel"));
  EXPECT_THAT(LoadWith("/pre_tokenizer/pretokenizers/0/pattern/Regex", "[\\p{L}&&[^a]]"),
              HasSubstr("inside a class"));
}

TEST_F(HfTokenizerTest, TwoTokensWithOneIdAreRefused) {
  EXPECT_THAT(LoadWith("/model/vocab/zzzq", 300), HasSubstr("found two for 300"));
  EXPECT_THAT(LoadWith("/added_tokens/0/id", 3), HasSubstr("found two for 3"));
}

// DeepSeek's files list their added tokens also in the vocabulary.
TEST_F(HfTokenizerTest, AnAddedTokenMayBeInTheVocabularyWithItsOwnId) {
  const auto id = good_["added_tokens"][0]["id"].get<TokenId>();
  const auto name = good_["added_tokens"][0]["content"].get<std::string>();
  ASSERT_EQ(LoadWith("/model/vocab/" + name, id), "OK");
  const auto tokenizer = LoadHfTokenizer(dir_);
  ASSERT_TRUE(tokenizer.ok());
  EXPECT_EQ((*tokenizer)->Encode(name, Specials::kParse), std::vector<TokenId>{id});
  EXPECT_EQ((*tokenizer)->TokenBytes(id), name);
}

}  // namespace
}  // namespace numoe::text
