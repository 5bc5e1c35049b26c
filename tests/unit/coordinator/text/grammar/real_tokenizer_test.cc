// Grammars with the vocabularies of real tokenisers: the trained one in the repository, and Kimi's if its
// files are available. Texts are accepted in the tokeniser's tokens, masks equal those of a walk, and control
// tokens never occur.
#include <filesystem>

#include "gtest/gtest.h"
#include "tests/unit/coordinator/text/grammar/grammar_testing.h"
#include "tests/unit/coordinator/text/grammar/random_schema.h"

namespace numoe::text {
namespace {

struct Model {
  std::unique_ptr<Tokenizer> tokenizer;
  VocabularyPtr vocabulary;
};

Model Load(const std::string& folder) {
  auto tokenizer = Tokenizer::Load(folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  Model model;
  model.tokenizer = *std::move(tokenizer);
  TokenId end = *model.tokenizer->SpecialId("<|im_end|>");
  model.vocabulary = GrammarVocabulary::Build(*model.tokenizer, {&end, 1});
  return model;
}

void CheckDocuments(const Model& model, uint64_t schemas) {
  EXPECT_TRUE(model.vocabulary->has_every_byte());
  std::mt19937_64 random(1);
  for (uint64_t seed = 0; seed < schemas; ++seed) {
    RandomSchema generator(seed);
    const std::string schema = generator.schema().dump();
    const GrammarPtr grammar = Compiled(Kind::kJsonSchema, schema, model.vocabulary);
    ASSERT_NE(grammar, nullptr);
    for (int i = 0; i < 5; ++i) {
      const std::string text = generator.Document();
      GrammarState state(grammar);
      for (const TokenId token : model.tokenizer->Encode(text, Specials::kAsText))
        ASSERT_TRUE(state.Accept(token)) << schema << "\n"
                                         << text << "\n"
                                         << model.tokenizer->TokenBytes(token);
      EXPECT_TRUE(state.IsDone()) << schema << "\n" << text;
    }
    const std::string walk = RandomText(grammar, random);
    EXPECT_TRUE(Accepts(grammar, walk)) << walk;
  }
}

void CheckControlTokens(const Model& model) {
  const GrammarPtr grammar = Compiled(Kind::kRegex, "[\\s\\S]*", model.vocabulary);
  GrammarState state(grammar);
  std::vector<uint64_t> mask(model.vocabulary->mask_words());
  ASSERT_TRUE(state.FillMask(absl::MakeSpan(mask)).ok());
  int allowed = 0;
  for (TokenId token = 0; token < model.vocabulary->size(); ++token) {
    const bool is_allowed =
        (mask[static_cast<size_t>(token) / 64] >> (static_cast<size_t>(token) % 64) & 1) != 0;
    allowed += is_allowed ? 1 : 0;
    if (model.tokenizer->IsSpecial(token)) {
      EXPECT_EQ(is_allowed, model.vocabulary->IsEnd(token)) << model.tokenizer->TokenBytes(token);
    }
  }
  EXPECT_GT(allowed, model.vocabulary->size() / 2);
}

TEST(RealTokenizerTest, TinyChat) {
  const Model model = Load("tests/golden/data/tiny-chat");
  CheckDocuments(model, 100);
  CheckControlTokens(model);
}

TEST(RealTokenizerTest, Kimi) {
  if (!std::filesystem::exists("../shared/data/kimi/tiktoken.model"))
    GTEST_SKIP() << "Kimi's tokeniser is not in ../shared/data/kimi";
  const Model model = Load("../shared/data/kimi");
  ASSERT_GT(model.vocabulary->size(), 160'000);
  CheckDocuments(model, 25);
  CheckControlTokens(model);
}

}  // namespace
}  // namespace numoe::text
