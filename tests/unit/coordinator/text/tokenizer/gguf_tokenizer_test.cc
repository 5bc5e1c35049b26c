// The tokenisers of testdata/, written as the metadata that llama.cpp's converters make of them, are compared
// with the same vectors from tiktoken and Hugging Face tokenizers. Also tests metadata that must be refused.
#include "coordinator/text/tokenizer/gguf_tokenizer.h"

#include <fstream>
#include <functional>

#include "common/weights/mapped_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::text {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const std::filesystem::path kData = "tests/unit/coordinator/text/tokenizer/testdata";

json ReadJson(const std::filesystem::path& path) {
  const auto text = ReadTextFile(path, 1 << 26);
  EXPECT_TRUE(text.ok()) << text.status();
  return json::parse(*text);
}

// Returns the printable spelling of bytes, following its definition.
std::string Spelling(std::string_view bytes) {
  std::string spelt;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    const auto printable = [](int b) {
      return (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
    };
    int point = byte;
    if (!printable(byte)) {
      point = 0x100;
      for (int b = 0; b < byte; ++b) point += printable(b) ? 0 : 1;
    }
    if (point >= 0x80) spelt += static_cast<char>(0xC0 | (point >> 6));
    spelt += static_cast<char>(point < 0x80 ? point : 0x80 | (point & 0x3F));
  }
  return spelt;
}

struct Vocabulary {
  std::vector<std::string> tokens;
  std::vector<int32_t> types;

  void Put(size_t id, const std::string& token, int32_t type) {
    while (tokens.size() <= id) {  // converters fill gaps in the same way
      tokens.push_back("[PAD" + std::to_string(tokens.size()) + "]");
      types.push_back(5);
    }
    tokens[id] = token;
    types[id] = type;
  }
  GgufWriter Write(const char* pre) const {
    GgufWriter writer;
    writer.Set("tokenizer.ggml.model", "gpt2");
    writer.Set("tokenizer.ggml.pre", pre);
    writer.Set("tokenizer.ggml.tokens", tokens);
    writer.Set("tokenizer.ggml.token_type", types);
    return writer;
  }
};

bool LooksSpecial(const std::string& name) {
  return name.rfind("<|", 0) == 0 && name.size() > 4 && name.substr(name.size() - 2) == "|>";
}

GgufWriter FromHuggingFace(const std::string& name, const char* pre) {
  const json root = ReadJson(kData / name / "tokenizer.json");
  Vocabulary vocabulary;
  for (const auto& [token, id] : root["model"]["vocab"].items()) vocabulary.Put(id.get<size_t>(), token, 1);
  for (const json& added : root["added_tokens"]) {
    const auto token = added["content"].get<std::string>();
    const bool control = added["special"].get<bool>() || LooksSpecial(token);
    vocabulary.Put(added["id"].get<size_t>(), token, control ? 3 : 4);
  }
  vocabulary.Put(vocabulary.tokens.size() + 10, "[PAD]", 5);  // rows of the embedding that no token uses
  GgufWriter writer = vocabulary.Write(pre);
  std::vector<std::string> merges;
  for (const json& merge : root["model"]["merges"])
    merges.push_back(merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  writer.Set("tokenizer.ggml.merges", merges);
  return writer;
}

GgufWriter FromTiktoken() {
  Vocabulary vocabulary;
  const auto tokenizer = Tokenizer::Load(kData / "kimi");
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  std::ifstream ranks(kData / "kimi/tiktoken.model");
  size_t count = 0;
  for (std::string line; std::getline(ranks, line);) count += line.empty() ? 0 : 1;
  for (size_t id = 0; id < static_cast<size_t>((*tokenizer)->VocabSize()); ++id) {
    const std::string bytes((*tokenizer)->TokenBytes(static_cast<TokenId>(id)));
    vocabulary.Put(id, id < count ? Spelling(bytes) : bytes, id < count ? 1 : 3);
  }
  return vocabulary.Write("kimi-k2");
}

absl::StatusOr<std::unique_ptr<Tokenizer>> Made(const GgufWriter& writer) {
  const std::vector<std::byte> bytes = writer.Bytes();
  const auto file = ParseGguf(bytes, "m.gguf");
  EXPECT_TRUE(file.ok()) << file.status();
  return MakeGgufTokenizer(*file, "m.gguf");
}

struct Source {
  const char* folder;
  GgufWriter (*make)();
};
class GoldenGgufTokenizerTest : public ::testing::TestWithParam<Source> {};

TEST_P(GoldenGgufTokenizerTest, EncodesLikeTheReferenceAndDecodesBack) {
  const auto made = Made(GetParam().make());
  ASSERT_TRUE(made.ok()) << made.status();
  const Tokenizer& tokenizer = **made;
  const json cases = ReadJson(kData / GetParam().folder / "golden.json");
  ASSERT_GT(cases.size(), 100u);
  for (const json& c : cases) {
    const auto input = c["text"].get<std::string>();
    EXPECT_EQ(tokenizer.Encode(input, Specials::kParse), c["parsed"].get<std::vector<TokenId>>()) << input;
    if (!c.contains("plain")) continue;
    const auto plain = tokenizer.Encode(input, Specials::kAsText);
    EXPECT_EQ(plain, c["plain"].get<std::vector<TokenId>>()) << input;
    EXPECT_EQ(tokenizer.Decode(plain, /*skip_special=*/true), input);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenGgufTokenizerTest,
                         ::testing::Values(Source{"kimi", &FromTiktoken},
                                           Source{"qwen3", [] { return FromHuggingFace("qwen3", "qwen2"); }},
                                           Source{"deepseek",
                                                  [] { return FromHuggingFace("deepseek", "deepseek-v3"); }}),
                         [](const auto& test) { return std::string(test.param.folder); });

TEST(GgufTokenizerTest, ControlTokensOfToolsAndThinkingStayVisible) {
  const auto tokenizer = Made(FromTiktoken());
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto own = Tokenizer::Load(kData / "kimi");
  ASSERT_EQ((*tokenizer)->VocabSize(), (*own)->VocabSize());
  for (TokenId id = 0; id < (*own)->VocabSize(); ++id) {
    EXPECT_EQ((*tokenizer)->TokenBytes(id), (*own)->TokenBytes(id)) << id;
    EXPECT_EQ((*tokenizer)->IsSpecial(id), (*own)->IsSpecial(id)) << (*own)->TokenBytes(id);
  }
}

TEST(GgufTokenizerTest, UserDefinedTokensAreMatchedAndVisibleAndUnusedOnesAreNot) {
  const auto tokenizer = Made(FromHuggingFace("qwen3", "qwen2"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Encode("<tool_call>", Specials::kParse), std::vector<TokenId>{601});
  EXPECT_FALSE((*tokenizer)->IsSpecial(601));
  EXPECT_TRUE((*tokenizer)->IsSpecial(600));
  EXPECT_EQ((*tokenizer)->SpecialId("[PAD]"), std::nullopt);
  EXPECT_EQ((*tokenizer)->TokenBytes((*tokenizer)->VocabSize() - 1), "");
}

TEST(GgufTokenizerTest, RolesAreGivenByIds) {
  GgufWriter writer = FromHuggingFace("qwen3", "qwen2");
  writer.Set("tokenizer.ggml.eos_token_id", 600u);
  writer.Set("tokenizer.ggml.bos_token_id", 99999u);  // beyond the vocabulary, so there is no such role
  const auto tokenizer = Made(writer);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT((*tokenizer)->role_tokens(),
              ::testing::ElementsAre(std::pair<std::string, std::string>{"eos_token", "<|im_end|>"}));
}

TEST(GgufTokenizerTest, TextsBeginWithATokenIfTheFileSaysSo) {
  GgufWriter writer = FromHuggingFace("qwen3", "qwen2");
  writer.Set("tokenizer.ggml.bos_token_id", 600u);
  EXPECT_EQ((*Made(writer))->FirstToken(), std::nullopt);
  writer.Set("tokenizer.ggml.add_bos_token", true);
  EXPECT_EQ((*Made(writer))->FirstToken(), 600);
}

TEST(GgufTokenizerTest, AModelsFileIsLoadedByItsPath) {
  const TemporaryFolder folder;
  FromTiktoken().Write(folder.path() / "m.gguf");
  for (const std::filesystem::path& path : {folder.path(), folder.path() / "m.gguf"}) {
    const auto tokenizer = Tokenizer::Load(path);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_TRUE((*tokenizer)->SpecialId("<|im_end|>").has_value());
  }
}

std::string Refusal(const std::function<void(GgufWriter&)>& change,
                    GgufWriter writer = FromHuggingFace("qwen3", "qwen2")) {
  change(writer);
  const absl::Status status = Made(writer).status();
  return status.ok() ? "made" : std::string(status.message());
}

TEST(GgufTokenizerTest, WrongMetadataNamesItsKey) {
  const auto without = [](const char* key) { return [=](GgufWriter& w) { w.Remove(key); }; };
  const auto set = [](const char* key, auto value) { return [=](GgufWriter& w) { w.Set(key, value); }; };
  EXPECT_EQ(Refusal(without("tokenizer.ggml.model")),
            "m.gguf: key tokenizer.ggml.model: is missing, expected gpt2");
  EXPECT_THAT(Refusal(set("tokenizer.ggml.model", "llama")), HasSubstr("is llama, expected gpt2"));
  EXPECT_THAT(Refusal(set("tokenizer.ggml.pre", "llama-bpe")),
              HasSubstr("key tokenizer.ggml.pre: is llama-bpe, expected kimi-k2, qwen2 or deepseek-v3"));
  EXPECT_THAT(Refusal(without("tokenizer.ggml.tokens")),
              HasSubstr("tokens: is missing, expected an array of strings"));
  EXPECT_THAT(Refusal(set("tokenizer.ggml.tokens", std::vector<std::string>{})), HasSubstr("expected 1 to"));
  EXPECT_THAT(Refusal(without("tokenizer.ggml.token_type")), HasSubstr("token_type: is missing"));
  EXPECT_THAT(Refusal(set("tokenizer.ggml.token_type", std::vector<int32_t>{1})),
              HasSubstr("token_type: is an array of 1, expected an array of 613, one for each token"));
  EXPECT_THAT(Refusal(set("tokenizer.ggml.token_type", std::vector<int32_t>(613, 6))),
              HasSubstr("token 0 is of type 6, expected 1 to 5"));
  EXPECT_THAT(Refusal(without("tokenizer.ggml.merges")), HasSubstr("merges: is missing"));
  EXPECT_THAT(Refusal(set("tokenizer.ggml.merges", std::vector<std::string>{"ab"})),
              HasSubstr("merge 0 is \"ab\", expected two tokens and a space"));
  EXPECT_THAT(Refusal(set("tokenizer.ggml.merges", std::vector<std::string>{"zq zq"})),
              HasSubstr("merge 0, \"zq zq\", makes no token"));
}

TEST(GgufTokenizerTest, WrongVocabularies) {
  Vocabulary two;
  two.Put(0, "a", 1);
  two.Put(1, "a", 1);
  EXPECT_THAT(Refusal([](GgufWriter&) {}, two.Write("qwen2")), HasSubstr("token 1 is there twice"));
  Vocabulary one;
  one.Put(0, "a", 1);
  EXPECT_THAT(Refusal([](GgufWriter&) {}, one.Write("qwen2")), HasSubstr("byte 0x00 is missing"));
  EXPECT_THAT(Refusal([](GgufWriter&) {}, one.Write("kimi-k2")),
              AllOf(HasSubstr("tokenizer.ggml.tokens"), HasSubstr("has no rank")));
  one.Put(1, "<|im_end|>", 3);
  one.Put(2, "b", 1);
  EXPECT_THAT(Refusal([](GgufWriter&) {}, one.Write("kimi-k2")),
              HasSubstr("token 2 is an ordinary token after token 1, which is not"));
  one.Put(1, "", 3);
  EXPECT_THAT(Refusal([](GgufWriter&) {}, one.Write("qwen2")), HasSubstr("token 1 is empty"));
}

}  // namespace
}  // namespace numoe::text
