#include "coordinator/text/grammar/string_tokens.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/text/grammar/json_syntax.h"
#include "coordinator/text/grammar/vocabulary.h"

namespace numoe::text::grammar {
namespace {

constexpr int kMaskedCharacters = 16;  // the few tokens with more characters are added one by one
constexpr size_t kLargePlace =
    20'000;  // a place with at least this number of tokens has masks beside the lists

}  // namespace

const Program& StringProgram() {
  static const Program* const program = [] {
    Expressions expressions;
    JsonSyntax json(expressions);
    const ExprId string = json.String();
    auto built = Program::Build(expressions, expressions.at(string).rule, GrammarLimits());
    NUMOE_CHECK(built.ok()) << built.status().ToString();
    return new Program(*std::move(built));
  }();
  return *program;
}

StateId BetweenCharacters() { return StringProgram().Next(StringProgram().start(), '"'); }

StringTokens::StringTokens(const GrammarVocabulary& vocabulary) : places_(StringProgram().states()) {
  for (size_t s = 0; s < places_.size(); ++s) Build(vocabulary, static_cast<StateId>(s), places_[s]);
}

void StringTokens::Build(const GrammarVocabulary& vocabulary, StateId state, Place& place) const {
  const Program& program = StringProgram();
  const StateId between = BetweenCharacters();
  const auto nodes = vocabulary.nodes();
  struct At {
    StateId state = kNoState;  // kNoState after the closing quote, which is at depth `quote`
    uint8_t characters = 0;
    uint8_t quote = 0;
  };
  std::vector<At> path(256);
  path[0].state = state;
  std::vector<std::pair<uint8_t, TokenId>> open, closing;
  std::vector<TokenTrie::Item> crossing;
  for (int32_t n = 1; n < vocabulary.node_count();) {
    const GrammarVocabulary::Node& node = nodes[static_cast<size_t>(n)];
    NUMOE_DCHECK(1 <= node.depth && node.depth < path.size());
    const At& before = path[node.depth - 1];
    At& here = path[node.depth];
    here = before;
    if (before.state != kNoState) {
      here.state = program.Next(before.state, node.byte);
      if (here.state == kNoState) {
        n = node.end;
        continue;
      }
      if (before.state == between && !program.IsFinal(here.state)) ++here.characters;
      if (program.IsFinal(here.state)) here = {kNoState, here.characters, node.depth};
    }
    const int32_t end = nodes[static_cast<size_t>(n) + 1].first_token;
    for (int32_t t = node.first_token; t < end; ++t) {
      const TokenId token = vocabulary.sorted_tokens()[static_cast<size_t>(t)];
      if (here.state != kNoState) {
        open.emplace_back(here.characters, token);
      } else if (here.quote == node.depth) {
        closing.emplace_back(here.characters, token);
      } else {
        crossing.push_back({vocabulary.bytes(token).substr(here.quote), token, here.characters});
      }
    }
    ++n;
  }
  const auto store = [](std::vector<std::pair<uint8_t, TokenId>>& found, Counted& counted) {
    std::sort(found.begin(), found.end());
    for (const auto& [characters, token] : found) {
      NUMOE_DCHECK_LT(characters, counted.upto.size());
      counted.tokens.push_back(token);
      ++counted.upto[characters];
    }
    for (size_t c = 1; c < counted.upto.size(); ++c) counted.upto[c] += counted.upto[c - 1];
    NUMOE_CHECK_EQ(static_cast<size_t>(counted.upto.back()), counted.tokens.size());
  };
  store(open, place.open);
  store(closing, place.closing);
  place.crossing = TokenTrie::Build(std::move(crossing));
  if (place.open.tokens.size() < kLargePlace) return;
  std::vector<uint64_t> mask(vocabulary.mask_words());
  for (int c = 0; c <= kMaskedCharacters; ++c) {
    for (const TokenId token : place.open.Between(c, c)) SetBit(absl::MakeSpan(mask), token);
    place.open_masks.push_back(mask);
  }
  for (const TokenId token : place.open.tokens) SetBit(absl::MakeSpan(mask), token);
  for (const TokenId token : place.closing.tokens) SetBit(absl::MakeSpan(mask), token);
  place.all = std::move(mask);
}

absl::Span<const TokenId> StringTokens::Counted::Between(int least, int most) const {
  NUMOE_DCHECK(least >= 0 && most >= 0 && static_cast<size_t>(most) < upto.size());
  const size_t begin = least == 0 ? 0 : upto[static_cast<size_t>(least) - 1];
  const size_t end = std::max<size_t>(begin, upto[static_cast<size_t>(most)]);
  return absl::MakeConstSpan(tokens).subspan(begin, end - begin);
}

void StringTokens::AddTo(StateId place_id, int least, int most, absl::Span<uint64_t> mask) const {
  NUMOE_DCHECK(0 <= least && least <= kAnyNumber && 0 <= most && most <= kAnyNumber);
  const Place& place = places_[static_cast<size_t>(place_id)];
  const auto add_mask = [mask](const std::vector<uint64_t>& bits) {
    NUMOE_DCHECK_EQ(bits.size(), mask.size());
    for (size_t w = 0; w < bits.size(); ++w) mask[w] |= bits[w];
  };
  if (least == 0 && most == kAnyNumber && !place.all.empty()) return add_mask(place.all);
  int listed = 0;  // tokens with this number of characters or more are added one by one
  if (!place.open_masks.empty()) {
    add_mask(place.open_masks[static_cast<size_t>(std::min(most, kMaskedCharacters))]);
    listed = kMaskedCharacters + 1;
  }
  if (listed <= most)
    for (const TokenId token : place.open.Between(listed, most)) SetBit(mask, token);
  for (const TokenId token : place.closing.Between(least, most)) SetBit(mask, token);
}

}  // namespace numoe::text::grammar
