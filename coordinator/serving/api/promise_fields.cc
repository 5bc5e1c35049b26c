#include "coordinator/serving/api/promise_fields.h"

#include <cstdint>

#include "coordinator/serving/api/api_limits.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

void ReadTruncation(JsonFields& in, GenerationRequest& out) {
  if (in.Get("truncate_prompt_tokens") != nullptr) {
    int64_t tokens = 0;
    in.Number("truncate_prompt_tokens", -1, INT32_MAX, tokens);
    if (tokens == 0)
      in.Fail("truncate_prompt_tokens", "a number of tokens of at least 1, or -1 for all that fit, found 0");
    out.truncation.tokens = tokens;
  }
  std::string side = "left";
  in.String("truncation_side", side);
  if (side != "left" && side != "right")
    in.Fail("truncation_side",
            "\"left\" or \"right\", the side where tokens are cut off, found \"" + side.substr(0, 40) + "\"");
  out.truncation.keep_first = side == "right";
}

void ReadBadWords(JsonFields& in, GenerationRequest& out) {
  in.Strings("bad_words", limits::kBadWordsMax, out.bad_words);
  size_t bytes = 0;
  for (const std::string& word : out.bad_words) {
    bytes += word.size();
    if (word.size() > limits::kBadWordBytesMax)
      in.Fail("bad_words", fmt::format("words of at most {} bytes, found one of {}", limits::kBadWordBytesMax,
                                       word.size()));
  }
  if (bytes > limits::kBadWordsBytesMax) {
    in.Fail("bad_words",
            fmt::format("words of at most {} bytes together, found {}", limits::kBadWordsBytesMax, bytes));
  }
}

void ReadBudget(JsonFields& in, GenerationRequest& out) {
  for (const char* name : {"thinking_token_budget", "thinking_budget", "reasoning_budget_tokens"}) {
    if (in.Get(name) == nullptr) continue;
    int tokens = -1;
    in.Number(name, -1, INT32_MAX, tokens);
    if (tokens < 0) continue;  // no limit
    out.thinking_budget = tokens;
    out.thinking_budget_param = name;
  }
}

void ReadStopPatterns(JsonFields& in, GenerationRequest& out) {
  std::vector<std::string> sources;
  in.Strings("stop_regex", limits::kStopRegexesMax, sources);
  size_t states = 0;
  for (std::string& source : sources) {
    auto pattern = text::StopPattern::Compile(std::move(source));
    if (!pattern.ok())
      return in.Fail("stop_regex",
                     "supported regular expressions: " + std::string(pattern.status().message()));
    states += pattern->machine->states.size();
    if (states > limits::kPatternDfaStatesMax) {
      return in.Fail("stop_regex", fmt::format("patterns that need at most {} states together, found more",
                                               limits::kPatternDfaStatesMax));
    }
    out.stop_patterns.push_back(*std::move(pattern));
  }
}

}  // namespace

void ReadPredict(JsonFields& in, GenerationRequest& out) {
  if (in.Get("n_predict") == nullptr) return;
  int tokens = -1;
  in.Number("n_predict", -1, INT32_MAX, tokens);
  if (tokens == 0) in.Fail("n_predict", "a number of tokens of at least 1, or -1 for no limit, found 0");
  out.sampling.max_tokens = tokens < 0 ? std::nullopt : std::optional<int>(tokens);
}

void ReadPromises(JsonFields& in, GenerationRequest& out) {
  ReadTruncation(in, out);
  ReadBadWords(in, out);
  ReadBudget(in, out);
  ReadStopPatterns(in, out);
}

}  // namespace numoe::serving
