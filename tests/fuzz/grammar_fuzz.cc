// A grammar from a client: compiling any source ends within its limits, with a grammar or an error of one
// line. Every compiled grammar keeps its guarantees along a text that is sampled from its masks.
//
// The first byte chooses the kind of source; the other bytes are the source and the random numbers for
// sampling.
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/check.h"
#include "coordinator/text/grammar/compiled_grammar.h"

namespace numoe {
namespace {

constexpr int kTokensMax = 24;

const std::shared_ptr<const text::GrammarVocabulary>& Vocabulary() {
  static const auto* const vocabulary = [] {
    std::vector<std::string> tokens;
    for (int b = 0; b < 256; ++b) tokens.emplace_back(1, static_cast<char>(b));
    for (const char* piece :
         {"{\"", "\":", "\", \"", "\"}", "}}", "]]", "null", "ab", "12", "\\n", "é", "日", "a\","})
      tokens.emplace_back(piece);
    const auto end = static_cast<TokenId>(tokens.size());
    std::vector<std::string_view> views(tokens.begin(), tokens.end());
    views.emplace_back();
    return new auto(text::GrammarVocabulary::Build(views, {&end, 1}));
  }();
  return *vocabulary;
}

text::GrammarLimits SmallLimits() {
  text::GrammarLimits limits;
  limits.nesting = 60;
  limits.expressions = 20'000;
  limits.nfa_states = 5'000;
  limits.dfa_states = 1'000;
  limits.subset_items = 20'000;
  limits.warm_steps = 500;
  return limits;
}

void CheckError(const absl::Status& status) {
  NUMOE_CHECK(status.code() == absl::StatusCode::kInvalidArgument ||
              status.code() == absl::StatusCode::kUnimplemented ||
              status.code() == absl::StatusCode::kResourceExhausted)
      << status.ToString();
  NUMOE_CHECK(!status.message().empty());
}

void Walk(std::shared_ptr<const text::CompiledGrammar> grammar, std::string_view dice) {
  const TokenId end = Vocabulary()->end_tokens()[0];
  text::GrammarState state(std::move(grammar));
  std::vector<uint64_t> mask(Vocabulary()->mask_words()), walked(mask.size());
  for (int i = 0; i < kTokensMax && !state.IsFinished(); ++i) {
    const absl::Status status = state.FillMask(absl::MakeSpan(mask));
    if (!status.ok()) return CheckError(status);
    NUMOE_CHECK(state.FillMaskByWalking(absl::MakeSpan(walked)).ok());
    NUMOE_CHECK(mask == walked);
    std::vector<TokenId> allowed;
    for (TokenId t = 0; t <= end; ++t)
      if ((mask[static_cast<size_t>(t) / 64] >> (static_cast<size_t>(t) % 64) & 1) != 0) allowed.push_back(t);
    NUMOE_CHECK(!allowed.empty());
    NUMOE_CHECK_EQ(allowed.back() == end, state.IsDone());
    const auto die = static_cast<uint8_t>(dice[static_cast<size_t>(i) % dice.size()]);
    NUMOE_CHECK(state.Accept(allowed[(die * 7919u + static_cast<unsigned>(i)) % allowed.size()]));
  }
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  using Kind = numoe::text::GrammarSource::Kind;
  // In the seeds the first byte is a digit: "0" is a schema, "1" a regex, "2" EBNF, "3" a choice, "4" a tag.
  constexpr std::array kKinds = {Kind::kEbnf, Kind::kChoice, Kind::kStructuralTag, Kind::kJsonSchema,
                                 Kind::kRegex};
  static_assert('0' % kKinds.size() == 3);
  const auto grammar = numoe::text::CompiledGrammar::Compile(
      {kKinds[data[0] % kKinds.size()], std::string(text)}, numoe::Vocabulary(), numoe::SmallLimits());
  if (grammar.ok()) {
    numoe::Walk(*grammar, text);
  } else {
    numoe::CheckError(grammar.status());
  }
  return 0;
}
