#include "coordinator/serving/api/choice.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/algorithm/container.h"
#include "common/base/check.h"
#include "coordinator/text/chat/tool_history.h"

namespace numoe::serving {
namespace {

using Kind = text::AnswerDelta::Kind;

std::vector<TokenId> StopIds(const GenerationRequest& request, const std::vector<TokenId>& eos) {
  std::vector<TokenId> ids = request.sampling.stop_token_ids;
  if (!request.sampling.ignore_eos) ids.insert(ids.end(), eos.begin(), eos.end());
  return ids;
}

const text::OutputFormat& FormatOf(const GenerationRequest& request, const ChoiceSetup& setup) {
  static const text::OutputFormat raw;
  return request.conversation ? setup.format : raw;
}

text::OutputParserOptions ParserOptions(const GenerationRequest& request, const ChoiceSetup& setup) {
  text::OutputParserOptions options;
  options.skip_special = request.skip_special_tokens;
  options.separate_reasoning = request.separate_reasoning;
  if (!request.conversation) return options;
  const Conversation& c = *request.conversation;
  options.calls = !c.tools.is_null();
  options.parallel_calls = c.calls.parallel;
  options.tools = text::ReadDeclaredTools(c.tools);
  options.first_call_number = text::NextCallNumber(c.messages);
  options.prompt_mark = text::PromptMark(setup.format, setup.tokenizer, setup.prompt);
  return options;
}

std::vector<TokenId> EchoOf(const GenerationRequest& request, absl::Span<const TokenId> prompt) {
  return request.echo ? std::vector<TokenId>(prompt.begin(), prompt.end()) : std::vector<TokenId>();
}

// Whether the prompt's first token was added by the server and does not come from the client's text.
bool FirstWasAdded(const GenerationRequest& request, const ChoiceSetup& setup) {
  const auto prompt = static_cast<size_t>(setup.prompt_index);
  const std::optional<TokenId> first = setup.tokenizer.FirstToken();
  if (!first || !request.add_special_tokens || prompt >= request.prompts.size()) return false;
  const Prompt& asked = request.prompts[prompt];
  return asked.tokens.empty() && !asked.text.starts_with(setup.tokenizer.TokenBytes(*first));
}

}  // namespace

Choice::Choice(const GenerationRequest& request, const ChoiceSetup& setup)
    : tokenizer_(setup.tokenizer),
      index_(setup.index),
      prompt_index_(setup.prompt_index),
      prompt_tokens_(static_cast<int>(setup.prompt.size())),
      min_tokens_(request.sampling.min_tokens),
      keep_tokens_(request.return_token_ids),
      include_reasoning_(request.include_reasoning),
      call_was_named_(request.conversation &&
                      request.conversation->calls.choice == CallPolicy::Choice::kNamed),
      own_stop_ids_(request.sampling.stop_token_ids),
      stop_ids_(StopIds(request, setup.eos_token_ids)),
      echo_(EchoOf(request, setup.prompt)),
      echo_first_was_added_(FirstWasAdded(request, setup)),
      echo_text_(request.echo_text),
      parser_(setup.tokenizer, FormatOf(request, setup), ParserOptions(request, setup)),
      stops_(request.stop, request.include_stop, request.stop_patterns) {}

ChoiceStep Choice::Take(const engine::TokenEvent& event) {
  std::vector<text::AnswerDelta> out;
  NUMOE_CHECK(event.finish != engine::FinishReason::kError || absl::IsDeadlineExceeded(event.error));
  if (done_) return {};
  cached_prompt_tokens_ = event.cached_prompt_tokens;
  if (!event.prompt_logprobs.empty()) prompt_logprobs_ = event.prompt_logprobs;
  if (!echo_.empty()) TakePrompt(out);
  AddContent(std::exchange(echo_text_, {}), out);
  for (size_t i = 0; i < event.tokens.size() && !done_; ++i) {
    const TokenId token = event.tokens[i];
    NUMOE_DCHECK(event.logprobs.empty() || event.logprobs.size() == event.tokens.size());
    ++completion_tokens_;
    if (keep_tokens_) tokens_.push_back(token);
    // The token that ended the answer is not part of it.
    if (event.finish == engine::FinishReason::kStop && absl::c_linear_search(stop_ids_, token)) {
      if (absl::c_linear_search(own_stop_ids_, token)) stop_reason_ = token;
      continue;
    }
    TakeToken(token, out);
    const bool hidden = !include_reasoning_ && parser_.last_part() == text::AnswerPart::kReasoning;
    if (i >= event.logprobs.size() || hidden) continue;
    logprobs_.push_back(event.logprobs[i]);
    parts_.push_back(parser_.last_part());
  }
  if (!done_ && event.finish != engine::FinishReason::kNone) End(out, event.finish);
  for (const text::AnswerDelta& delta : out) {
    answer_.Add(delta);
    text::Append(delta, deltas_);
  }
  if (finish_reason_ == "stop" && !answer_.calls.empty() && !call_was_named_) finish_reason_ = "tool_calls";
  NUMOE_DCHECK_EQ(done_, !finish_reason_.empty());
  return Step(std::move(out));
}

ChoiceStep Choice::Step(std::vector<text::AnswerDelta> deltas) {
  ChoiceStep step{.deltas = std::move(deltas), .tokens = {}, .logprobs = {}, .parts = {}};
  NUMOE_CHECK(sent_tokens_ <= tokens_.size() && sent_logprobs_ <= logprobs_.size());
  NUMOE_CHECK_EQ(logprobs_.size(), parts_.size());
  if (!step.says_something() && !done_) return step;
  step.tokens.assign(tokens_.begin() + static_cast<int64_t>(std::exchange(sent_tokens_, tokens_.size())),
                     tokens_.end());
  const auto told = static_cast<int64_t>(std::exchange(sent_logprobs_, logprobs_.size()));
  step.logprobs.assign(logprobs_.begin() + told, logprobs_.end());
  step.parts.assign(parts_.begin() + told, parts_.end());
  return step;
}

// Adds the prompt to the answer, with its log-probabilities if there are any.
void Choice::TakePrompt(std::vector<text::AnswerDelta>& out) {
  const std::vector<TokenId> prompt = std::exchange(echo_, {});
  NUMOE_DCHECK(prompt_logprobs_.empty() || prompt_logprobs_.size() + 1 == prompt.size());
  AddContent(tokenizer_.Decode(absl::MakeConstSpan(prompt).subspan(echo_first_was_added_ ? 1 : 0),
                               /*skip_special=*/false),
             out);
  if (prompt_logprobs_.empty() && prompt.size() > 1) return;
  execution::TokenLogprobs first;
  first.chosen = {prompt[0], std::numeric_limits<float>::quiet_NaN()};
  logprobs_.push_back(first);
  logprobs_.insert(logprobs_.end(), prompt_logprobs_.begin(), prompt_logprobs_.end());
  parts_.resize(logprobs_.size(), text::AnswerPart::kContent);
}

void Choice::TakeToken(TokenId token, std::vector<text::AnswerDelta>& out) {
  NUMOE_DCHECK(!done_);
  std::vector<text::AnswerDelta> parsed;
  parser_.Push(token, parsed);
  Add(std::move(parsed), out);
  if (!stops_.stopped() && !parser_.complete()) return;
  AddContent(stops_.Flush(), out);
  done_ = ended_early_ = true;
  finish_reason_ = "stop";
  if (stops_.stopped()) stop_reason_ = stops_.stop();
}

void Choice::End(std::vector<text::AnswerDelta>& out, engine::FinishReason finish) {
  NUMOE_CHECK(!done_ && finish != engine::FinishReason::kNone);
  done_ = true;
  std::vector<text::AnswerDelta> parsed;
  parser_.Finish(parsed, finish == engine::FinishReason::kStop ? text::OutputParser::Ending::kByModel
                                                               : text::OutputParser::Ending::kCutOff);
  Add(std::move(parsed), out);
  AddContent(stops_.Flush(), out);
  finish_reason_ = finish == engine::FinishReason::kStop || stops_.stopped() ? "stop"
                   : finish == engine::FinishReason::kCancelled              ? "abort"
                                                                             : "length";
  if (stops_.stopped()) {
    stop_reason_ = stops_.stop();
  } else if (finish == engine::FinishReason::kError) {
    stop_reason_ = kTimedOut;
  }
}

void Choice::Add(std::vector<text::AnswerDelta> parsed, std::vector<text::AnswerDelta>& out) {
  for (text::AnswerDelta& delta : parsed) {
    if (delta.kind == Kind::kContent) {
      AddContent(completion_tokens_ < min_tokens_ ? delta.text : stops_.Push(delta.text), out);
      continue;
    }
    AddContent(stops_.Flush(), out);  // a stop string cannot extend over a call or reasoning
    if (delta.kind == Kind::kReasoning && !include_reasoning_) continue;
    if (!stops_.stopped()) text::Append(std::move(delta), out);
  }
}

void Choice::AddContent(std::string text, std::vector<text::AnswerDelta>& out) {
  if (!text.empty()) text::Append({.kind = Kind::kContent, .text = std::move(text)}, out);
}

double Choice::MeanLogprob() const {
  double sum = 0;
  int count = 0;
  for (const execution::TokenLogprobs& token : logprobs_) {
    if (std::isnan(token.chosen.logprob)) continue;
    sum += token.chosen.logprob;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace numoe::serving
