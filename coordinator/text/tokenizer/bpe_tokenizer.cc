#include "coordinator/text/tokenizer/bpe_tokenizer.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/weights/weights_limits.h"
#include "coordinator/text/tokenizer/bpe.h"
#include "coordinator/text/tokenizer/nfc.h"
#include "coordinator/text/tokenizer/segment_encoder.h"

namespace numoe::text {
namespace {

BytePairEncoder MakeEncoder(const BpeModel& model) {
  std::vector<std::pair<std::string_view, TokenId>> vocabulary;
  vocabulary.reserve(model.vocab.size());
  for (const auto& [bytes, id] : model.vocab) {
    if (!bytes.empty()) vocabulary.emplace_back(bytes, id);
  }
  return BytePairEncoder::FromMerges(vocabulary, model.merges, model.ignore_merges);
}

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeModel model)
      : encoder_(MakeEncoder(model)),
        nfc_(model.nfc),
        patterns_(std::move(model.patterns)),
        tokens_(std::move(model.tokens)),
        specials_(std::move(model.specials)) {
    role_tokens_ = std::move(model.role_tokens);
    add_bos_token_ = model.add_bos_token;
    size_t longest = specials_.LongestName();
    for (const std::string& token : tokens_) longest = std::max(longest, token.size());
    token_text_bytes_max_ = longest * (nfc_ ? kNfcShrinkMax : 1);
    NUMOE_CHECK_GT(token_text_bytes_max_, 0u);
  }

  std::vector<TokenId> EncodeSegments(absl::Span<const TextSegment> segments) const override {
    std::vector<TokenId> ids;
    BytePairEncoder::Scratch scratch;
    std::string buffer;
    CutSpecials(
        segments, specials_,
        [&](std::string_view text) { SplitFrom(0, nfc_ ? Nfc(text, buffer) : text, scratch, ids); },
        [&](TokenId id) { ids.push_back(id); });
    return ids;
  }

  std::string_view TokenBytes(TokenId id) const override {
    if (id < 0 || static_cast<size_t>(id) >= tokens_.size()) return {};
    return tokens_[id];
  }
  bool IsSpecial(TokenId id) const override { return specials_.IsSpecial(id); }
  std::optional<TokenId> SpecialId(std::string_view name) const override {
    const auto it = specials_.by_name().find(name);
    if (it == specials_.by_name().end()) return std::nullopt;
    return it->second.id;
  }
  int VocabSize() const override { return static_cast<int>(tokens_.size()); }

 private:
  void SplitFrom(size_t pattern, std::string_view text, BytePairEncoder::Scratch& scratch,
                 std::vector<TokenId>& ids) const {
    if (pattern == patterns_.size()) return encoder_.Encode(text, scratch, ids);
    patterns_[pattern].Split(text,
                             [&](std::string_view piece) { SplitFrom(pattern + 1, piece, scratch, ids); });
  }

  const BytePairEncoder encoder_;
  const bool nfc_;
  const std::vector<Pattern> patterns_;  // each divides the pieces of the previous one
  const std::vector<std::string> tokens_;
  const SpecialTokens specials_;
};

}  // namespace

bool BpeModel::StoreToken(TokenId id, std::string bytes) {
  NUMOE_CHECK(0 <= id && id < limits::kVocabularyMax) << id;
  if (static_cast<size_t>(id) >= tokens.size()) tokens.resize(static_cast<size_t>(id) + 1);
  if (!tokens[id].empty()) return false;
  tokens[id] = std::move(bytes);
  return true;
}

bool BpeModel::AddMerge(std::string_view left, std::string_view right) {
  const auto merged = vocab.find(std::string(left).append(right));
  if (merged == vocab.end() || merges.size() == limits::kVocabularyMax) return false;
  const auto left_token = vocab.find(std::string(left)), right_token = vocab.find(std::string(right));
  // If `left` or `right` is not a token, no part can ever be merged by this rule, so it is left out.
  if (left_token == vocab.end() || right_token == vocab.end()) return true;
  merges.push_back(
      {left_token->second, right_token->second, static_cast<int32_t>(merges.size()), merged->second});
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

}  // namespace numoe::text
