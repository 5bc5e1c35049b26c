// Byte-level BPE, independent of the file format: merges, patterns, normalisation.
#include "coordinator/text/tokenizer/bpe_tokenizer.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::text {
namespace {

using ::testing::ElementsAre;

BpeModel Bytes(std::vector<std::string> more = {}) {
  BpeModel model;
  for (int b = 0; b < 256; ++b) more.insert(more.begin() + b, std::string(1, static_cast<char>(b)));
  for (size_t id = 0; id < more.size(); ++id) {
    EXPECT_TRUE(model.StoreToken(static_cast<TokenId>(id), more[id]));
    model.vocab[more[id]] = static_cast<TokenId>(id);
  }
  return model;
}

TEST(BpeTokenizerTest, MergesApplyInTheirOrder) {
  BpeModel model = Bytes({"ab", "bc", "abc"});
  EXPECT_TRUE(model.AddMerge("b", "c"));
  EXPECT_TRUE(model.AddMerge("a", "b"));
  EXPECT_TRUE(model.AddMerge("a", "bc"));
  const auto tokenizer = MakeBpeTokenizer(std::move(model));
  EXPECT_THAT(tokenizer->Encode("abc", Specials::kAsText), ElementsAre(258));
  EXPECT_THAT(tokenizer->Encode("abx", Specials::kAsText), ElementsAre(256, 'x'));
  EXPECT_THAT(tokenizer->Encode("", Specials::kAsText), ElementsAre());
  EXPECT_EQ(tokenizer->VocabSize(), 259);
  EXPECT_EQ(tokenizer->TokenBytes(258), "abc");
  EXPECT_EQ(tokenizer->TokenBytes(259), "");
  EXPECT_EQ(tokenizer->TokenBytes(-1), "");
}

TEST(BpeTokenizerTest, AWholeTokenNeedsNoMergesIfTheseAreIgnored) {
  for (const bool ignore : {true, false}) {
    BpeModel model = Bytes({"xyz"});
    model.ignore_merges = ignore;
    const auto ids = MakeBpeTokenizer(std::move(model))->Encode("xyz", Specials::kAsText);
    EXPECT_EQ(ids, ignore ? std::vector<TokenId>{256} : (std::vector<TokenId>{'x', 'y', 'z'}));
  }
}

TEST(BpeTokenizerTest, TextIsNormalisedIfTheModelSaysSo) {
  for (const bool nfc : {true, false}) {
    BpeModel model = Bytes();
    model.nfc = nfc;
    EXPECT_EQ(MakeBpeTokenizer(std::move(model))->Encode("e\u0301", Specials::kAsText).size(), nfc ? 2u : 3u);
  }
}

TEST(BpeTokenizerTest, ControlTokensAreSeparatedFirst) {
  BpeModel model = Bytes({"<x>"});
  model.vocab.erase("<x>");
  model.specials.Add("<x>", {256, true});
  model.role_tokens = {{"eos_token", "<x>"}};
  const auto tokenizer = MakeBpeTokenizer(std::move(model));
  EXPECT_THAT(tokenizer->Encode("a<x>", Specials::kParse), ElementsAre('a', 256));
  EXPECT_EQ(tokenizer->Encode("a<x>", Specials::kAsText).size(), 4u);
  EXPECT_EQ(tokenizer->SpecialId("<x>"), 256);
  EXPECT_EQ(tokenizer->SpecialId("<y>"), std::nullopt);
  EXPECT_TRUE(tokenizer->IsSpecial(256));
}

TEST(BpeModelTest, ImpossibleIdsAndMergesAreRefused) {
  BpeModel model = Bytes({"ab"});
  EXPECT_FALSE(model.StoreToken(256, "other")) << "the id has a token";
  EXPECT_TRUE(model.StoreToken(300, "far"));
  EXPECT_EQ(model.tokens.size(), 301u);
  EXPECT_FALSE(model.AddMerge("a", "c")) << "the result is not a token";
  EXPECT_TRUE(model.AddMerge("", "ab")) << "the merge is left out, because one part is not a token";
  EXPECT_TRUE(model.merges.empty());
}

TEST(BpeModelTest, EveryByteMustBeAToken) {
  BpeModel model = Bytes();
  EXPECT_EQ(model.MissingByte(), -1);
  model.vocab.erase("A");
  EXPECT_EQ(model.MissingByte(), 'A');
  EXPECT_DEATH(MakeBpeTokenizer(model), "65");
}

}  // namespace
}  // namespace numoe::text
