#include "coordinator/tokenizer/hf_tokenizer.h"

#include <fmt/format.h>
#include <utf8proc.h>

#include <array>
#include <cstdlib>
#include <unordered_map>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/weights/json_reader.h"
#include "common/weights/mapped_file.h"
#include "coordinator/tokenizer/bpe.h"
#include "coordinator/tokenizer/pattern.h"
#include "coordinator/tokenizer/segment_encoder.h"
#include "coordinator/tokenizer/tokenizer_config.h"
#include "coordinator/tokenizer/utf8.h"

namespace numoe {
namespace {

using nlohmann::json;

// GPT-2's printable stand-in for each byte: itself where printable, else U+0100 + n for the n-th of the rest.
std::array<std::string, 256> ByteNames() {
  std::array<std::string, 256> names;
  int next = 0;
  for (int b = 0; b < 256; ++b) {
    const bool printable = (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
    const int point = printable ? b : 256 + next++;
    if (point < 0x80) {
      names[b] = static_cast<char>(point);
    } else {
      names[b] = {static_cast<char>(0xC0 | (point >> 6)), static_cast<char>(0x80 | (point & 0x3F))};
    }
  }
  return names;
}

std::string EscapeRegex(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\^$.|?*+()[]{}-").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

class HfTokenizer final : public Tokenizer {
 public:
  absl::Status Load(const std::filesystem::path& dir) {
    path_ = (dir / "tokenizer.json").string();
    ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path_, limits::kJsonFileBytesMax));
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
    ASSIGN_OR_RETURN(const TokenizerConfig config, ReadTokenizerConfig(dir));
    role_tokens_ = config.role_tokens;
    return absl::OkStatus();
  }

  std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const override {
    std::vector<TokenId> ids;
    CutSpecials(
        segments, specials_,
        [&](std::string_view text) {
          if (nfc_) {
            EncodeText(Nfc(text), ids);
          } else {
            EncodeText(text, ids);
          }
        },
        [&](TokenId id) { ids.push_back(id); });
    return ids;
  }

  std::string_view TokenBytes(TokenId id) const override {
    if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return {};
    return tokens_[id];
  }
  bool IsSpecial(TokenId id) const override {
    const auto it = specials_.by_id().find(id);
    return it != specials_.by_id().end() && specials_.by_name().find(it->second)->second.special;
  }
  std::optional<TokenId> SpecialId(std::string_view name) const override {
    const auto it = specials_.by_name().find(name);
    if (it == specials_.by_name().end()) return std::nullopt;
    return it->second.id;
  }
  int VocabSize() const override { return static_cast<int>(tokens_.size()); }

 private:
  absl::Status Error(std::string_view field, std::string_view expected) const {
    return absl::InvalidArgumentError(fmt::format("{}: {}: expected {}", path_, field, expected));
  }
  static std::string TypeOf(const json& component) {
    return component.is_object() && component.contains("type") && component["type"].is_string()
               ? component["type"].get<std::string>()
               : component.dump().substr(0, 80);
  }

  // `fallback` where the field is absent; nlohmann's value() would throw on another type.
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
      nfc_ = true;
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
      // Absent counts as true: the library itself refuses a file without the field.
      ASSIGN_OR_RETURN(const bool add_prefix_space, Flag(component, "add_prefix_space", true));
      if (add_prefix_space) return Error("pre_tokenizer ByteLevel", "add_prefix_space false");
      ASSIGN_OR_RETURN(const bool use_regex, Flag(component, "use_regex", true));
      byte_level_ = true;
      // use_regex (the default) cuts by GPT-2's own pattern.
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
    patterns_.push_back(*std::move(pattern));
    return absl::OkStatus();
  }

  absl::Status ReadModel(const json& model) {
    if (model.contains("type") && !Is(model, "type", "BPE"))
      return Error("model.type", "BPE, found " + TypeOf(model));
    RETURN_IF_ERROR(RefuseModelOptions(model));
    if (!model.contains("vocab") || !model["vocab"].is_object()) return Error("model.vocab", "an object");
    if (!model.contains("merges") || !model["merges"].is_array()) return Error("model.merges", "a list");
    ASSIGN_OR_RETURN(ignore_merges_, Flag(model, "ignore_merges", false));
    for (int b = 0; b < 256; ++b) byte_of_name_[byte_names_[b]] = static_cast<char>(b);
    for (const auto& [name, id] : model["vocab"].items()) {
      if (!id.is_number_unsigned() || id.get<uint64_t>() >= (1u << 24))
        return Error("model.vocab", "ids below 2^24");
      RETURN_IF_ERROR(StoreToken(id.get<TokenId>(), BytesOfName(name), "model.vocab"));
      vocab_[BytesOfName(name)] = id.get<TokenId>();
    }
    RETURN_IF_ERROR(ReadMerges(model["merges"]));
    for (int b = 0; b < 256; ++b) {
      if (vocab_.count(std::string(1, static_cast<char>(b))) == 0)
        return Error("model.vocab", fmt::format("byte 0x{:02x}", b));
    }
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
    int32_t rank = 0;
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
      left = BytesOfName(left);
      right = BytesOfName(right);
      if (vocab_.count(left + right) == 0)
        return Error("model.merges", fmt::format("merge {} to be in the vocabulary", rank));
      merges_.emplace(MergeKey(left, right), rank++);
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
      // A name that is in the vocabulary, too, keeps its id; there its spelling was read as bytes.
      if (const auto it = vocab_.find(BytesOfName(name)); it != vocab_.end() && it->second == id)
        tokens_[id].clear();
      RETURN_IF_ERROR(StoreToken(id, name, "added_tokens"));
      specials_.Add(name, {id, special});
    }
    return absl::OkStatus();
  }

  absl::Status StoreToken(TokenId id, std::string bytes, std::string_view field) {
    if (static_cast<size_t>(id) >= tokens_.size()) tokens_.resize(static_cast<size_t>(id) + 1);
    if (!tokens_[id].empty()) return Error(field, fmt::format("one token for each id, found two for {}", id));
    tokens_[id] = std::move(bytes);
    return absl::OkStatus();
  }

  // Vocabulary spelling to bytes; characters outside the byte alphabet (added tokens in vocab) stay as they
  // are.
  std::string BytesOfName(std::string_view name) const {
    std::string bytes;
    for (size_t at = 0; at < name.size();) {
      const int step = Utf8Step(name.substr(at));
      const size_t length = static_cast<size_t>(step > 0 ? step : 1);
      const auto it = byte_of_name_.find(std::string(name.substr(at, length)));
      if (it != byte_of_name_.end()) {
        bytes += it->second;
      } else {
        bytes += name.substr(at, length);
      }
      at += length;
    }
    return bytes;
  }
  static std::string MergeKey(std::string_view left, std::string_view right) {
    // The left length makes the key unique: "ab"+"c" is another merge than "a"+"bc".
    const auto length = static_cast<uint32_t>(left.size());
    std::string key(reinterpret_cast<const char*>(&length), sizeof length);
    return key.append(left).append(right);
  }

  static std::string Nfc(std::string_view text) {
    utf8proc_uint8_t* out = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(
        reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
        &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    std::string result =
        size < 0 ? std::string(text) : std::string(reinterpret_cast<char*>(out), static_cast<size_t>(size));
    std::free(out);
    return result;
  }

  void EncodeText(std::string_view text, std::vector<TokenId>& ids) const { SplitFrom(0, text, ids); }

  // Each pre-tokeniser cuts the pieces of the one before it.
  void SplitFrom(size_t pattern, std::string_view text, std::vector<TokenId>& ids) const {
    if (pattern == patterns_.size()) return EncodePiece(text, ids);
    patterns_[pattern].Split(text, [&](std::string_view piece) { SplitFrom(pattern + 1, piece, ids); });
  }

  void EncodePiece(std::string_view piece, std::vector<TokenId>& ids) const {
    if (ignore_merges_) {
      if (const auto whole = vocab_.find(std::string(piece)); whole != vocab_.end())
        return ids.push_back(whole->second);
    }
    const auto rank = [&](std::string_view left, std::string_view right) {
      const auto it = merges_.find(MergeKey(left, right));
      return it == merges_.end() ? kNoMerge : it->second;
    };
    size_t at = 0;
    for (const int length : MergeBytes(piece, std::vector<int>(piece.size(), 1), rank)) {
      ids.push_back(vocab_.find(std::string(piece.substr(at, length)))->second);
      at += length;
    }
  }

  std::string path_;
  bool nfc_ = false;
  bool byte_level_ = false;  // the pre-tokeniser maps bytes to the vocabulary's alphabet
  bool ignore_merges_ = false;
  std::vector<Pattern> patterns_;
  const std::array<std::string, 256> byte_names_ = ByteNames();
  std::unordered_map<std::string, char> byte_of_name_;
  std::vector<std::string> tokens_;                  // [id] bytes
  std::unordered_map<std::string, TokenId> vocab_;   // bytes -> id
  std::unordered_map<std::string, int32_t> merges_;  // MergeKey -> rank
  SpecialTokens specials_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadHfTokenizer(const std::filesystem::path& dir) {
  auto tokenizer = std::make_unique<HfTokenizer>();
  RETURN_IF_ERROR(tokenizer->Load(dir));
  return tokenizer;
}

}  // namespace numoe
