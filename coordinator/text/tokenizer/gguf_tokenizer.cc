#include "coordinator/text/tokenizer/gguf_tokenizer.h"

#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/weights_limits.h"
#include "coordinator/text/tokenizer/bpe_tokenizer.h"
#include "coordinator/text/tokenizer/byte_names.h"
#include "coordinator/text/tokenizer/pattern.h"
#include "coordinator/text/tokenizer/tiktoken_tokenizer.h"
#include "coordinator/text/tokenizer/tokenizer_config.h"

namespace numoe::text {
namespace {

// tokenizer.ggml.token_type
enum TokenKind : int64_t { kNormal = 1, kUnknown = 2, kControl = 3, kUserDefined = 4, kUnused = 5 };

constexpr char kKimi[] = "kimi-k2";

// The pre-tokenisation of each model's own tokenizer.json.
struct PreTokenizer {
  const char* pre;
  bool nfc;
  std::vector<const char*> patterns;
};
const PreTokenizer kPreTokenizers[] = {
    {"qwen2",
     true,
     {"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
      "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
    {"deepseek-v3",
     false,
     {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
      "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|"
      " ?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
};

// Returns whether a control token is part of the answer, so that clients and parsers must see it.
bool IsContent(std::string_view name) {
  return name.find("tool") != std::string_view::npos || name.find("think") != std::string_view::npos;
}

class GgufVocabularyReader {
 public:
  GgufVocabularyReader(const GgufFile& file, const std::string& path) : file_(file), path_(path) {}

  absl::StatusOr<std::unique_ptr<Tokenizer>> Read() {
    if (const std::string model = file_.Text("tokenizer.ggml.model"); model != "gpt2")
      return Error("model", model.empty() ? "is missing" : "is " + Printable(model), "gpt2");
    RETURN_IF_ERROR(ReadTokens());
    ReadRoles();
    const std::string pre = file_.Text("tokenizer.ggml.pre");
    if (pre == kKimi) return MakeKimi();
    for (const PreTokenizer& cut : kPreTokenizers) {
      if (pre == cut.pre) return MakeBpe(cut);
    }
    return Error("pre", pre.empty() ? "is missing" : "is " + Printable(pre), "kimi-k2, qwen2 or deepseek-v3");
  }

 private:
  absl::Status Error(std::string_view key, const std::string& found, std::string_view expected) const {
    return absl::InvalidArgumentError(
        fmt::format("{}: key tokenizer.ggml.{}: {}, expected {}", path_, key, found, expected));
  }

  std::string Found(std::string_view key) const {
    const GgufValue* value = file_.Key(fmt::format("tokenizer.ggml.{}", key));
    return value == nullptr ? "is missing" : "is " + value->Describe();
  }

  absl::StatusOr<std::vector<std::string_view>> Strings(std::string_view key) const {
    const GgufValue* value = file_.Key(fmt::format("tokenizer.ggml.{}", key));
    std::optional<std::vector<std::string_view>> strings;
    if (value != nullptr) strings = value->Strings();
    if (strings) return *std::move(strings);
    return Error(key, Found(key), "an array of strings");
  }

  // Reads the names and kinds of all tokens. Unknown, control and user-defined tokens are also listed as
  // added tokens.
  absl::Status ReadTokens() {
    ASSIGN_OR_RETURN(names_, Strings("tokens"));
    if (names_.empty() || names_.size() > limits::kVocabularyMax)
      return Error("tokens", Found("tokens"), fmt::format("1 to {} tokens", limits::kVocabularyMax));
    const GgufValue* types = file_.Key("tokenizer.ggml.token_type");
    std::optional<std::vector<int64_t>> kinds;
    if (types != nullptr) kinds = types->Integers();
    if (!kinds || kinds->size() != names_.size())
      return Error("token_type", Found("token_type"),
                   fmt::format("an array of {}, one for each token", names_.size()));
    kinds_ = *std::move(kinds);
    for (size_t id = 0; id < names_.size(); ++id) {
      const int64_t kind = kinds_[id];
      if (kind < kNormal || kind > kUnused)
        return Error("token_type", fmt::format("token {} is of type {}", id, kind), "1 to 5");
      if (kind != kUnused && names_[id].empty())
        return Error("tokens", fmt::format("token {} is empty", id), "a name");
      if (kind == kUnknown || kind == kControl || kind == kUserDefined) {
        const bool special = kind != kUserDefined && !IsContent(names_[id]);
        config_.added_tokens.emplace_back(names_[id], SpecialToken{static_cast<TokenId>(id), special});
      }
    }
    return absl::OkStatus();
  }

  void ReadRoles() {
    for (const auto& [role, key] : {std::pair{"bos_token", "tokenizer.ggml.bos_token_id"},
                                    {"eos_token", "tokenizer.ggml.eos_token_id"},
                                    {"pad_token", "tokenizer.ggml.padding_token_id"},
                                    {"unk_token", "tokenizer.ggml.unknown_token_id"}}) {
      const GgufValue* value = file_.Key(key);
      const std::optional<int64_t> id = value == nullptr ? std::nullopt : value->Integer();
      if (id && *id >= 0 && static_cast<size_t>(*id) < names_.size())
        config_.role_tokens.emplace_back(role, names_[static_cast<size_t>(*id)]);
    }
    const GgufValue* adds = file_.Key("tokenizer.ggml.add_bos_token");
    config_.add_bos_token = adds != nullptr && adds->Bool().value_or(false);
  }

  // The ordinary tokens must come first, in the order of their ranks.
  absl::StatusOr<std::unique_ptr<Tokenizer>> MakeKimi() const {
    std::vector<std::string> ranks;
    while (ranks.size() < names_.size() && kinds_[ranks.size()] == kNormal)
      ranks.push_back(bytes_.Bytes(names_[ranks.size()]));
    for (size_t id = ranks.size(); id < names_.size(); ++id) {
      if (kinds_[id] == kNormal) {
        return Error(
            "token_type",
            fmt::format("token {} is an ordinary token after token {}, which is not", id, ranks.size()),
            "ordinary tokens first: their ids are their ranks");
      }
    }
    return MakeTiktoken(std::move(ranks), config_, path_ + ": key tokenizer.ggml.tokens");
  }

  absl::StatusOr<std::unique_ptr<Tokenizer>> MakeBpe(const PreTokenizer& cut) const {
    BpeModel model;
    model.nfc = cut.nfc;
    model.role_tokens = config_.role_tokens;
    model.add_bos_token = config_.add_bos_token;
    for (const char* expression : cut.patterns) {
      ASSIGN_OR_RETURN(Pattern pattern, Pattern::Compile(expression));
      model.patterns.push_back(std::move(pattern));
    }
    model.tokens.resize(names_.size());
    for (size_t id = 0; id < names_.size(); ++id) {
      if (kinds_[id] != kNormal) continue;
      model.tokens[id] = bytes_.Bytes(names_[id]);
      if (!model.vocab.emplace(model.tokens[id], static_cast<TokenId>(id)).second)
        return Error("tokens", fmt::format("token {} is there twice", id), "each once");
    }
    for (const auto& [name, token] : config_.added_tokens) {
      model.tokens[token.id] = name;
      model.specials.Add(name, token);
    }
    if (const int byte = model.MissingByte(); byte >= 0)
      return Error("tokens", fmt::format("byte 0x{:02x} is missing", byte), "all 256");
    RETURN_IF_ERROR(ReadMerges(model));
    return MakeBpeTokenizer(std::move(model));
  }

  absl::Status ReadMerges(BpeModel& model) const {
    ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, Strings("merges"));
    for (size_t i = 0; i < merges.size(); ++i) {
      const size_t space = merges[i].find(' ');
      if (space == std::string_view::npos)
        return Error("merges", fmt::format("merge {} is \"{}\"", i, Printable(merges[i])),
                     "two tokens and a space");
      if (!model.AddMerge(bytes_.Bytes(merges[i].substr(0, space)),
                          bytes_.Bytes(merges[i].substr(space + 1)))) {
        return Error("merges", fmt::format("merge {}, \"{}\", makes no token", i, Printable(merges[i])),
                     "merges of the vocabulary");
      }
    }
    return absl::OkStatus();
  }

  const GgufFile& file_;
  const std::string& path_;
  const ByteNames bytes_;
  std::vector<std::string_view> names_;  // [id]
  std::vector<int64_t> kinds_;           // [id]
  TokenizerConfig config_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeGgufTokenizer(const GgufFile& file, const std::string& path) {
  return GgufVocabularyReader(file, path).Read();
}

}  // namespace numoe::text
