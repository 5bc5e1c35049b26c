// Vocabularies of ranks: invalid ones, and the published one.
#include "coordinator/text/tokenizer/tiktoken_tokenizer.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::filesystem::path kKimiData = "tests/unit/coordinator/text/tokenizer/testdata/kimi";
const std::filesystem::path kPublishedKimi = "../shared/data/kimi";

std::filesystem::path WriteVocabulary(const std::string& name, const std::string& ranks) {
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / name;
  std::filesystem::create_directories(dir);
  std::ofstream(dir / "tiktoken.model") << ranks;
  return dir;
}

TEST(TiktokenTokenizerTest, BadVocabulariesAreRefusedWithTheirLine) {
  EXPECT_THAT(Tokenizer::Load(WriteVocabulary("gap", "IQ== 0\nIg== 2\n")).status().ToString(),
              ::testing::AllOf(HasSubstr("line 2"), HasSubstr("rank 1")));
  EXPECT_THAT(Tokenizer::Load(WriteVocabulary("base64", "*** 0\n")).status().ToString(), HasSubstr("line 1"));
  EXPECT_THAT(Tokenizer::Load(WriteVocabulary("twice", "IQ== 0\nIQ== 1\n")).status().ToString(),
              HasSubstr("twice"));
  EXPECT_THAT(Tokenizer::Load(WriteVocabulary("bytes", "IQ== 0\n")).status().ToString(),
              HasSubstr("has no rank"));
  EXPECT_THAT(Tokenizer::Load("/nonexistent").status().ToString(),
              HasSubstr("tiktoken.model or tokenizer.json"));
}

TEST(TiktokenTokenizerTest, AVocabularyWithoutItsControlTokensIsRefused) {
  const std::filesystem::path dir = std::filesystem::path(::testing::TempDir()) / "no_config";
  std::filesystem::create_directories(dir);
  std::filesystem::copy_file(kKimiData / "tiktoken.model", dir / "tiktoken.model",
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THAT(Tokenizer::Load(dir).status().ToString(), HasSubstr("no tokenizer_config.json"));
}

TEST(PublishedKimiVocabularyTest, GoldenVectors) {
  if (!std::filesystem::exists(kPublishedKimi / "tiktoken.model")) {
    GTEST_SKIP() << "the published Kimi vocabulary is not in " << kPublishedKimi
                 << "; the repository's own vocabulary covers the same rules";
  }
  const auto loaded = Tokenizer::Load(kPublishedKimi);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto& tokenizer = *loaded;
  const auto encode = [&](const char* text) { return tokenizer->Encode(text, Specials::kParse); };
  EXPECT_THAT(encode("Hello, world!"), ElementsAre(19180, 11, 2695, 0));
  EXPECT_THAT(encode("The quick brown fox jumps over 12345 lazy dogs."),
              ElementsAre(1008, 5072, 16331, 69275, 60062, 1312, 220, 6694, 2899, 29292, 17023, 13));
  EXPECT_THAT(encode("你好，世界！"), ElementsAre(33845, 378, 2243, 856));
  EXPECT_THAT(encode("DON'T stop, it's fine"), ElementsAre(35, 1034, 64833, 6156, 11, 4643, 8201));
  EXPECT_THAT(encode("HelloWorld fooBar XMLHttpRequest"),
              ElementsAre(19180, 14350, 21633, 7637, 160457, 3188));
  EXPECT_THAT(encode("a1b22c333d4444"), ElementsAre(64, 16, 65, 2270, 66, 15176, 67, 24446, 19));
  EXPECT_THAT(encode("日本語テキスト"), ElementsAre(4546, 63011, 25875, 32045, 33360));
  EXPECT_THAT(encode("\t\tif (x) {\r\n"), ElementsAre(197, 1281, 347, 87, 8, 2844));
  EXPECT_THAT(encode("functions.get_weather:0"), ElementsAre(41937, 1150, 21055, 2800, 25, 15));
  EXPECT_THAT(encode("tool_declare"), ElementsAre(20960, 35556, 677));
  EXPECT_THAT(encode("<|im_user|>user<|im_middle|>Hi<|im_end|><|im_assistant|>assistant<|im_middle|>"),
              ElementsAre(163587, 2482, 163601, 18699, 163586, 163588, 69702, 163601));
  EXPECT_EQ(tokenizer->TokenBytes(163700), "<|reserved_token_163700|>");
}

TEST(TiktokenTokenizerTest, RanksAreReadInOrder) {
  const auto ranks = ParseRanks("IQ== 0\nIiM= 1\n", "f");
  ASSERT_TRUE(ranks.ok()) << ranks.status();
  EXPECT_THAT(*ranks, ElementsAre("!", "\"#"));
  EXPECT_THAT(ParseRanks("IQ==\n", "f").status().ToString(), HasSubstr("f"));
  EXPECT_FALSE(ParseRanks("IQ== x\n", "f").ok());
}

// Returns ranks for all bytes, followed by `merged`.
std::vector<std::string> BytesAnd(std::vector<std::string> merged) {
  std::vector<std::string> ranks;
  for (int b = 0; b < 256; ++b) ranks.emplace_back(1, static_cast<char>(b));
  ranks.insert(ranks.end(), merged.begin(), merged.end());
  return ranks;
}

TEST(TiktokenTokenizerTest, APieceThatIsATokenIsNotMergedAndOthersAreMergedByRank) {
  const auto tokenizer =
      MakeTiktoken(BytesAnd({"ab", "bc", "abcd"}), {.added_tokens = {{"<x>", {300, true}}}}, "f");
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->Encode("abcd", Specials::kAsText), ElementsAre(258));
  EXPECT_THAT((*tokenizer)->Encode("abc", Specials::kAsText), ElementsAre(256, 'c'));
  EXPECT_THAT((*tokenizer)->Encode("bc", Specials::kAsText), ElementsAre(257));
  EXPECT_THAT((*tokenizer)->Encode("bc<x>", Specials::kParse), ElementsAre(257, 300));
  EXPECT_TRUE((*tokenizer)->IsSpecial(300));
  EXPECT_EQ((*tokenizer)->TokenBytes(299), "<|reserved_token_299|>");
}

}  // namespace
}  // namespace numoe::text
