#include "coordinator/text/tokenizer/hf_tokenizer.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/mapped_file.h"
#include "common/weights/weights_limits.h"
#include "coordinator/text/tokenizer/bpe_tokenizer.h"
#include "coordinator/text/tokenizer/byte_names.h"
#include "coordinator/text/tokenizer/pattern.h"

namespace numoe::text {
namespace {

using nlohmann::json;

std::string EscapeRegex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

class TokenizerJsonReader {
 public:
  explicit TokenizerJsonReader(const std::string& path) : path_(path) {}

  absl::StatusOr<std::unique_ptr<Tokenizer>> Read(std::string_view text, const TokenizerConfig& config) {
    ASSIGN_OR_RETURN(const json root, ParseStrictJson(text, path_));
    if (!root.is_object() || !root.contains("model") || !root["model"].is_object())
      return Error("model", "an object");
    RETURN_IF_ERROR(ReadNormalizer(root.value("normalizer", json())));
    RETURN_IF_ERROR(ReadPreTokenizer(root.value("pre_tokenizer", json())));
    if (!byte_level_) return Error("pre_tokenizer", "a ByteLevel component, found none");
    const std::string decoder = TypeOf(root.value("decoder", json()));
    if (decoder != "ByteLevel") return Error("decoder", "ByteLevel, found " + decoder);
    RETURN_IF_ERROR(ReadModel(root["model"]));
    RETURN_IF_ERROR(ReadAddedTokens(root.value("added_tokens", json::array())));
    model_.role_tokens = config.role_tokens;
    model_.add_bos_token = config.add_bos_token;
    return MakeBpeTokenizer(std::move(model_));
  }

 private:
  absl::Status Error(std::string_view field, std::string_view expected) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}: expected {}", path_, field, expected));
  }
  static std::string TypeOf(const json& component) {
    return component.is_object() && component.contains("type") && component["type"].is_string()
               ? component["type"].get<std::string>()
               : component.dump().substr(0, 80);
  }

  // Returns `fallback` if the field is absent. (nlohmann's value() would throw on another type.)
  absl::StatusOr<bool> Flag(const json& component, const char* field, bool fallback) const {
    const auto it = component.find(field);
    if (it == component.end()) return fallback;
    if (!it->is_boolean()) return Error(field, "true or false, found " + it->dump().substr(0, 80));
    return it->get<bool>();
  }
  static bool Is(const json& component, const char* field, std::string_view value) {
    const auto it = component.find(field);
    return it != component.end() && it->is_string() && it->get_ref<const std::string&>() == value;
  }

  absl::Status ReadNormalizer(const json& normalizer) {
    if (normalizer.is_null()) return absl::OkStatus();
    const std::string type = TypeOf(normalizer);
    if (type == "NFC") {
      model_.nfc = true;
      return absl::OkStatus();
    }
    if (type == "Sequence" && normalizer.contains("normalizers")) {
      for (const json& part : normalizer["normalizers"]) RETURN_IF_ERROR(ReadNormalizer(part));
      return absl::OkStatus();
    }
    return Error("normalizer", fmt::format("none or NFC, found {}", type));
  }

  absl::Status ReadPreTokenizer(const json& component) {
    if (component.is_null()) return absl::OkStatus();
    const std::string type = TypeOf(component);
    if (type == "Sequence" && component.contains("pretokenizers")) {
      for (const json& part : component["pretokenizers"]) RETURN_IF_ERROR(ReadPreTokenizer(part));
      return absl::OkStatus();
    }
    if (type == "ByteLevel") {
      // If the field is absent, it counts as true; the library itself refuses a file without it.
      ASSIGN_OR_RETURN(const bool add_prefix_space, Flag(component, "add_prefix_space", true));
      if (add_prefix_space) return Error("pre_tokenizer ByteLevel", "add_prefix_space false");
      ASSIGN_OR_RETURN(const bool use_regex, Flag(component, "use_regex", true));
      byte_level_ = true;
      // use_regex (the default) divides text by GPT-2's own pattern.
      return use_regex
                 ? AddPattern(
                       "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+")
                 : absl::OkStatus();
    }
    if (type == "Digits") {
      ASSIGN_OR_RETURN(const bool individual, Flag(component, "individual_digits", false));
      return AddPattern(individual ? "\\p{N}" : "\\p{N}+");
    }
    if (type == "Split" && component.contains("pattern") && Is(component, "behavior", "Isolated")) {
      ASSIGN_OR_RETURN(const bool invert, Flag(component, "invert", false));
      if (invert) return Error("pre_tokenizer Split", "invert false");
      const json& pattern = component["pattern"];
      if (pattern.contains("Regex") && pattern["Regex"].is_string())
        return AddPattern(pattern["Regex"].get<std::string>());
      if (pattern.contains("String") && pattern["String"].is_string()) {
        return AddPattern(EscapeRegex(pattern["String"].get<std::string>()));
      }
    }
    return Error("pre_tokenizer",
                 fmt::format("Split (Isolated), Digits, ByteLevel or a Sequence of them, found {}",
                             component.dump().substr(0, 200)));
  }

  absl::Status AddPattern(const std::string& expression) {
    absl::StatusOr<Pattern> pattern = Pattern::Compile(expression);
    if (!pattern.ok()) return Annotate(pattern.status(), path_ + ": pre_tokenizer");
    model_.patterns.push_back(*std::move(pattern));
    return absl::OkStatus();
  }

  absl::Status ReadModel(const json& model) {
    if (model.contains("type") && !Is(model, "type", "BPE"))
      return Error("model.type", "BPE, found " + TypeOf(model));
    RETURN_IF_ERROR(RefuseModelOptions(model));
    if (!model.contains("vocab") || !model["vocab"].is_object()) return Error("model.vocab", "an object");
    if (!model.contains("merges") || !model["merges"].is_array()) return Error("model.merges", "a list");
    ASSIGN_OR_RETURN(model_.ignore_merges, Flag(model, "ignore_merges", false));
    for (const auto& [name, id] : model["vocab"].items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= (1u << 24))
        return Error("model.vocab", "ids below 2^24");
      const std::string bytes = names_.Bytes(name);
      RETURN_IF_ERROR(StoreToken(id.get<TokenId>(), bytes, "model.vocab"));
      model_.vocab[bytes] = id.get<TokenId>();
    }
    RETURN_IF_ERROR(ReadMerges(model["merges"]));
    if (const int byte = model_.MissingByte(); byte >= 0)
      return Error("model.vocab", fmt::format("byte 0x{:02x}", byte));
    return absl::OkStatus();
  }

  // Options of BPE that change the result and that byte-level vocabularies do not use.
  absl::Status RefuseModelOptions(const json& model) const {
    ASSIGN_OR_RETURN(const bool byte_fallback, Flag(model, "byte_fallback", false));
    if (byte_fallback) return Error("model.byte_fallback", "false");
    for (const char* option : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
      const auto it = model.find(option);
      const bool unset = it == model.end() || it->is_null() || *it == "" || (it->is_number() && *it == 0);
      if (!unset) return Error(fmt::format("model.{}", option), "null, found " + it->dump().substr(0, 80));
    }
    return absl::OkStatus();
  }

  absl::Status ReadMerges(const json& merges) {
    size_t rank = 0;
    for (const json& merge : merges) {
      std::string left, right;
      if (merge.is_string()) {
        const std::string pair = merge.get<std::string>();
        const size_t space = pair.find(' ');
        if (space == std::string::npos) return Error("model.merges", "pairs, found \"" + pair + "\"");
        left = pair.substr(0, space);
        right = pair.substr(space + 1);
      } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
        left = merge[0].get<std::string>();
        right = merge[1].get<std::string>();
      } else {
        return Error("model.merges", "pairs, found " + merge.dump().substr(0, 80));
      }
      if (!model_.AddMerge(names_.Bytes(left), names_.Bytes(right)))
        return Error("model.merges", fmt::format("merge {} to be in the vocabulary", rank));
      ++rank;
    }
    return absl::OkStatus();
  }

  absl::Status ReadAddedTokens(const json& added) {
    for (const json& token : added) {
      if (!token.is_object() || !token.contains("id") || !token["id"].is_number_unsigned() ||
          token["id"].get<uint64_t>() >= (1u << 24) || !token.contains("content") ||
          !token["content"].is_string()) {
        return Error("added_tokens", "objects with id and content, found " + token.dump().substr(0, 80));
      }
      for (const char* flag : {"lstrip", "rstrip", "single_word"}) {
        ASSIGN_OR_RETURN(const bool set, Flag(token, flag, false));
        if (set) return Error("added_tokens", fmt::format("{} false for {}", flag, token["content"].dump()));
      }
      const auto id = token["id"].get<TokenId>();
      const auto name = token["content"].get<std::string>();
      ASSIGN_OR_RETURN(const bool special, Flag(token, "special", false));
      // A name that is also in the vocabulary keeps its id; the vocabulary's entry was read as the spelling
      // of bytes.
      if (const auto it = model_.vocab.find(names_.Bytes(name)); it != model_.vocab.end() && it->second == id)
        model_.tokens[id].clear();
      RETURN_IF_ERROR(StoreToken(id, name, "added_tokens"));
      model_.specials.Add(name, {id, special});
    }
    return absl::OkStatus();
  }

  absl::Status StoreToken(TokenId id, const std::string& bytes, std::string_view field) {
    if (model_.StoreToken(id, bytes)) return absl::OkStatus();
    return Error(field, fmt::format("one token for each id, found two for {}", id));
  }

  const std::string path_;
  bool byte_level_ = false;  // the pre-tokeniser maps bytes to the alphabet of the vocabulary
  const ByteNames names_;
  BpeModel model_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadHfTokenizer(const std::filesystem::path& dir) {
  const std::string path = (dir / "tokenizer.json").string();
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
  ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(dir));
  return MakeHfTokenizer(text, config, path);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeHfTokenizer(std::string_view json_text,
                                                           const TokenizerConfig& config,
                                                           const std::string& source) {
  return TokenizerJsonReader(source).Read(json_text, config);
}

}  // namespace numoe::text
