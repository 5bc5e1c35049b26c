#include "coordinator/text/grammar/vocabulary.h"

#include <algorithm>
#include <bitset>

#include "common/base/check.h"
#include "coordinator/text/grammar/string_tokens.h"

namespace numoe::text {
namespace {

constexpr size_t kTokenBytesMax =
    255;  // because a node's depth is a byte; Kimi's longest token has 128 bytes

// UTF-8 as an automaton: state 0 is between characters, and the other states are those of Unicode's table
// 3-7.
enum Utf8State : uint8_t {
  kBoundary,
  kOneMore,
  kTwoMore,
  kThreeMore,
  kAfterE0,
  kAfterEd,
  kAfterF0,
  kAfterF4,
  kBroken
};

Utf8State NextUtf8(Utf8State state, uint8_t byte) {
  const auto between = [byte](uint8_t low, uint8_t high, Utf8State next) {
    return low <= byte && byte <= high ? next : kBroken;
  };
  switch (state) {
    case kOneMore:
      return between(0x80, 0xBF, kBoundary);
    case kTwoMore:
      return between(0x80, 0xBF, kOneMore);
    case kThreeMore:
      return between(0x80, 0xBF, kTwoMore);
    case kAfterE0:
      return between(0xA0, 0xBF, kOneMore);
    case kAfterEd:
      return between(0x80, 0x9F, kOneMore);
    case kAfterF0:
      return between(0x90, 0xBF, kTwoMore);
    case kAfterF4:
      return between(0x80, 0x8F, kTwoMore);
    case kBroken:
      return kBroken;
    case kBoundary:
      break;
  }
  if (byte < 0x80) return kBoundary;
  if (byte >= 0xC2 && byte <= 0xDF) return kOneMore;
  if (byte == 0xE0) return kAfterE0;
  if (byte == 0xED) return kAfterEd;
  if (byte >= 0xE1 && byte <= 0xEF) return kTwoMore;
  if (byte == 0xF0) return kAfterF0;
  if (byte >= 0xF1 && byte <= 0xF3) return kThreeMore;
  return byte == 0xF4 ? kAfterF4 : kBroken;
}

}  // namespace

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::Build(const Tokenizer& tokenizer,
                                                                  absl::Span<const TokenId> end_tokens) {
  std::vector<std::string_view> tokens;
  for (TokenId id = 0; id < tokenizer.VocabSize(); ++id) {
    const std::string_view bytes = tokenizer.TokenBytes(id);
    const bool control = tokenizer.IsSpecial(id) || tokenizer.SpecialId(bytes) == id;
    tokens.push_back(control ? std::string_view() : bytes);
  }
  return Build(tokens, end_tokens);
}

std::shared_ptr<const GrammarVocabulary> GrammarVocabulary::Build(const std::vector<std::string_view>& tokens,
                                                                  absl::Span<const TokenId> end_tokens) {
  auto vocabulary = std::make_shared<GrammarVocabulary>();
  vocabulary->end_tokens_.assign(end_tokens.begin(), end_tokens.end());
  vocabulary->offsets_.push_back(0);
  std::bitset<256> single;
  for (size_t id = 0; id < tokens.size(); ++id) {
    std::string_view bytes = tokens[id];
    if (bytes.size() > kTokenBytesMax || vocabulary->IsEnd(static_cast<TokenId>(id))) bytes = {};
    if (bytes.size() == 1) single.set(static_cast<uint8_t>(bytes[0]));
    vocabulary->text_.insert(vocabulary->text_.end(), bytes.begin(), bytes.end());
    vocabulary->offsets_.push_back(vocabulary->text_.size());
    if (!bytes.empty()) vocabulary->sorted_.push_back(static_cast<TokenId>(id));
  }
  for (const TokenId end : end_tokens) NUMOE_CHECK(end >= 0 && end < vocabulary->size()) << end;
  vocabulary->has_every_byte_ = single.all();
  vocabulary->BuildTrie();
  vocabulary->SummariseSubtrees();
  vocabulary->strings_ = std::make_shared<const grammar::StringTokens>(*vocabulary);
  return vocabulary;
}

bool GrammarVocabulary::IsEnd(TokenId token) const {
  return std::find(end_tokens_.begin(), end_tokens_.end(), token) != end_tokens_.end();
}

std::string_view GrammarVocabulary::bytes(TokenId token) const {
  const auto id = static_cast<size_t>(token);
  NUMOE_CHECK_LT(id + 1, offsets_.size());
  return {text_.data() + offsets_[id], offsets_[id + 1] - offsets_[id]};
}

void GrammarVocabulary::BuildTrie() {
  std::sort(sorted_.begin(), sorted_.end(), [this](TokenId a, TokenId b) {
    const int order = bytes(a).compare(bytes(b));
    return order < 0 || (order == 0 && a < b);
  });
  nodes_.push_back({});
  std::string_view previous;
  std::vector<size_t> path = {0};  // the nodes of the previous token, by depth
  const auto close = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back())
      nodes_[path.back()].end = static_cast<int32_t>(nodes_.size());
  };
  for (size_t i = 0; i < sorted_.size(); ++i) {
    const std::string_view token = bytes(sorted_[i]);
    size_t shared = 0;
    while (shared < previous.size() && shared < token.size() && previous[shared] == token[shared]) ++shared;
    close(shared);
    NUMOE_DCHECK(shared < path.size() && token.size() <= UINT8_MAX);
    for (size_t d = shared; d < token.size(); ++d) {
      path.push_back(nodes_.size());
      nodes_.push_back({.byte = static_cast<uint8_t>(token[d]),
                        .depth = static_cast<uint8_t>(d + 1),
                        .first_token = static_cast<int32_t>(i)});
    }
    previous = token;
  }
  close(0);
  nodes_[0].end = static_cast<int32_t>(nodes_.size());
  nodes_.push_back(
      {.end = static_cast<int32_t>(nodes_.size()), .first_token = static_cast<int32_t>(sorted_.size())});
}

void GrammarVocabulary::SummariseSubtrees() {
  NUMOE_CHECK_EQ(static_cast<size_t>(node_count()) + 1, nodes_.size());
  // Bit q of legal[n] is set if every path down from n continues well-formed UTF-8 that is in state q at n.
  std::vector<uint8_t> legal(nodes_.size(), 0xFF);
  for (int32_t n = node_count() - 1; n >= 0; --n) {
    Node& node = nodes_[static_cast<size_t>(n)];
    for (int32_t c = n + 1; c < node.end; c = nodes_[static_cast<size_t>(c)].end) {
      const Node& child = nodes_[static_cast<size_t>(c)];
      for (int i = 0; i < 2; ++i) node.ascii[i] |= child.ascii[i];
      node.others |= child.others || child.byte >= 0x80;
      if (child.byte < 0x80) node.ascii[child.byte / 64] |= uint64_t{1} << (child.byte % 64);
      const int characters = child.characters + ((child.byte & 0xC0) != 0x80 ? 1 : 0);
      node.characters = static_cast<uint8_t>(std::clamp<int>(characters, node.characters, 255));
      for (uint8_t q = kBoundary; q < kBroken; ++q) {
        const Utf8State next = NextUtf8(static_cast<Utf8State>(q), child.byte);
        if (next == kBroken || !(legal[static_cast<size_t>(c)] >> next & 1))
          legal[static_cast<size_t>(n)] &= static_cast<uint8_t>(~(1u << q));
      }
    }
    node.utf8 = legal[static_cast<size_t>(n)] & 1;
  }
}

}  // namespace numoe::text
