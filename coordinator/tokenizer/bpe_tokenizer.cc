#include "coordinator/tokenizer/bpe_tokenizer.h"

#include <utf8proc.h>

#include <cstdlib>

#include "common/base/check.h"
#include "coordinator/tokenizer/bpe.h"
#include "coordinator/tokenizer/segment_encoder.h"

namespace numoe {
namespace {

std::string MergeKey(std::string_view left, std::string_view right) {
  // The left length makes the key unique: "ab"+"c" is another merge than "a"+"bc".
  const auto length = static_cast<uint32_t>(left.size());
  std::string key(reinterpret_cast<const char*>(&length), sizeof length);
  return key.append(left).append(right);
}

std::string Nfc(std::string_view text) {
  utf8proc_uint8_t* out = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  std::string result =
      size < 0 ? std::string(text) : std::string(reinterpret_cast<char*>(out), static_cast<size_t>(size));
  std::free(out);
  return result;
}

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeModel model) : model_(std::move(model)) { role_tokens_ = model_.role_tokens; }

  std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const override {
    std::vector<TokenId> ids;
    CutSpecials(
        segments, model_.specials,
        [&](std::string_view text) {
          if (model_.nfc) {
            SplitFrom(0, Nfc(text), ids);
          } else {
            SplitFrom(0, text, ids);
          }
        },
        [&](TokenId id) { ids.push_back(id); });
    return ids;
  }

  std::string_view TokenBytes(TokenId id) const override {
    if (id < 0 || static_cast<size_t>(id) >= model_.tokens.size()) return {};
    return model_.tokens[id];
  }
  bool IsSpecial(TokenId id) const override {
    const SpecialTokens& specials = model_.specials;
    const auto it = specials.by_id().find(id);
    return it != specials.by_id().end() && specials.by_name().find(it->second)->second.special;
  }
  std::optional<TokenId> SpecialId(std::string_view name) const override {
    const auto it = model_.specials.by_name().find(name);
    if (it == model_.specials.by_name().end()) return std::nullopt;
    return it->second.id;
  }
  int VocabSize() const override { return static_cast<int>(model_.tokens.size()); }

 private:
  void SplitFrom(size_t pattern, std::string_view text, std::vector<TokenId>& ids) const {
    if (pattern == model_.patterns.size()) return EncodePiece(text, ids);
    model_.patterns[pattern].Split(text, [&](std::string_view piece) { SplitFrom(pattern + 1, piece, ids); });
  }

  void EncodePiece(std::string_view piece, std::vector<TokenId>& ids) const {
    if (model_.ignore_merges) {
      if (const auto whole = model_.vocab.find(std::string(piece)); whole != model_.vocab.end())
        return ids.push_back(whole->second);
    }
    const auto rank = [&](std::string_view left, std::string_view right) {
      const auto it = model_.merges.find(MergeKey(left, right));
      return it == model_.merges.end() ? kNoMerge : it->second;
    };
    size_t at = 0;
    for (const int length : MergeBytes(piece, std::vector<int>(piece.size(), 1), rank)) {
      ids.push_back(model_.vocab.find(std::string(piece.substr(at, length)))->second);
      at += length;
    }
  }

  const BpeModel model_;
};

}  // namespace

bool BpeModel::StoreToken(TokenId id, std::string bytes) {
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
  if (!tokens[id].empty()) return false;
  tokens[id] = std::move(bytes);
  return true;
}

bool BpeModel::AddMerge(std::string_view left, std::string_view right) {
  if (vocab.count(std::string(left).append(right)) == 0) return false;
  const auto rank = static_cast<int32_t>(merges.size());
  merges.emplace(MergeKey(left, right), rank);
  return true;
}

int BpeModel::MissingByte() const {
  for (int b = 0; b < 256; ++b) {
    if (vocab.count(std::string(1, static_cast<char>(b))) == 0) return b;
  }
  return -1;
}

std::unique_ptr<Tokenizer> MakeBpeTokenizer(BpeModel model) {
  NUMOE_CHECK(model.MissingByte() < 0) << model.MissingByte();
  return std::make_unique<BpeTokenizer>(std::move(model));
}

}  // namespace numoe
