// The scheduler in virtual time: with arrivals, cancellations, lost steps and a full cache, every request
// ends exactly once, with the same result as if it ran alone; priorities, deadlines and probabilities are as
// documented.
#include "coordinator/engine/scheduler/scheduler.h"

#include <array>
#include <cmath>
#include <map>
#include <random>

#include "gmock/gmock.h"
#include "tests/unit/coordinator/engine/scheduler/simulation.h"

namespace numoe::engine {
namespace {

using ::testing::HasSubstr;

std::vector<TokenId> RandomTokens(std::mt19937& random, size_t count, unsigned kinds) {
  std::vector<TokenId> tokens(count);
  for (TokenId& t : tokens) t = static_cast<TokenId>(random() % kinds);
  return tokens;
}

constexpr TokenId kSchedulerEnd = 3;

// Allows `left` even tokens and then only the end token. It must be asked once for each token, also with lost
// steps, preemption and rows that are left to the host.
class EvenTokens final : public execution::TokenConstraint {
 public:
  explicit EvenTokens(int count) : left_(count) {}
  absl::StatusOr<absl::Span<const uint64_t>> Mask() override {
    EXPECT_FALSE(std::exchange(asked_, true)) << "with " << left_ << " left";
    mask_ = left_ > 0 ? std::array<uint64_t, 2>{0x5555555555555555, 0x5555555555555555}
                      : std::array<uint64_t, 2>{uint64_t{1} << kSchedulerEnd, 0};
    return absl::MakeConstSpan(mask_);
  }
  void Accept(TokenId token) override {
    EXPECT_TRUE(left_ > 0 ? token % 2 == 0 : token == kSchedulerEnd) << token;
    EXPECT_TRUE(std::exchange(asked_, false));
    --left_;
  }

 private:
  int left_;
  bool asked_ = false;
  std::array<uint64_t, 2> mask_ = {};
};

// Returns a request with random parameters of every kind.
SamplingParams RandomSampling(std::mt19937& random, int max_tokens) {
  SamplingParams p{.temperature = random() % 2 == 0 ? 0.0 : 4.0, .seed = random(), .max_tokens = max_tokens};
  if (random() % 3 == 0) p.top_p = 0.9;
  if (random() % 4 == 0) p.frequency_penalty = 0.7;
  if (random() % 4 == 0) p.repetition_penalty = 1.3;
  if (random() % 5 == 0) p.logit_bias = {{5, 8.0f}, {6, -3.0f}};
  if (random() % 4 == 0) p.stop_token_ids = {1, 2, 5}, p.min_tokens = static_cast<int>(random() % 6);
  if (random() % 3 == 0) p.logprobs = static_cast<int>(random() % 4);
  if (random() % 4 == 0) p.prompt_logprobs = static_cast<int>(random() % 3);
  return p;
}

SimulationOptions RandomOptions(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  SimulationOptions options;
  PlannerLimits& limits = options.engine.limits;
  limits = {.sequences_max = 1 + below(12), .step_tokens = 12 + below(30), .block_tokens = 1 + below(6)};
  limits.prompt_logit_rows = 8 + below(10);
  if (below(2) == 0) limits.growth_tokens = 0;  // leads to more preemptions
  if (below(3) == 0) {
    options.engine.deterministic = true;
    limits.fixed_chunk_tokens = 1 + below(std::min(8, limits.step_tokens - limits.sequences_max + 1));
  }
  const int tiny = 90 / limits.block_tokens + 2;  // enough for the longest request and little more
  options.engine.kv_blocks = below(2) == 0 ? tiny + below(tiny) : 20 * tiny;
  options.engine.max_model_len = 10'000;
  options.engine.vocab = ScriptedModel::kVocab;
  options.engine.eos_token_ids = {kSchedulerEnd};
  options.engine.prefix_caching = below(4) != 0;
  options.engine.worker_deadline_ms = 2'000;
  double at = 0;
  for (int i = below(4); i > 0; --i) {
    // A step succeeds between two outages, which together would exceed the deadline.
    at += (500 + below(2500)) / 1e3;
    options.outages.push_back({at, at + below(1500) / 1e3});
    at = options.outages.back().to_s;
  }
  for (double reset = 0; below(3) != 0;) options.resets_s.push_back(reset += below(3000) / 1e3);
  if (below(4) == 0) options.changes_s = {below(3000) / 1e3, 3 + below(3000) / 1e3};
  return options;
}

std::vector<SimulatedRequest> RandomRequests(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<int>(random() % static_cast<unsigned>(bound)); };
  std::vector<SimulatedRequest> requests;
  double at = 0;
  const int tenants = 1 + below(3);
  for (int i = 10 + below(30); i > 0; --i) {
    if (below(3) != 0) at += below(600) / 1e3;
    SimulatedRequest r{.at_s = at};
    r.prompt.assign(static_cast<size_t>(4 * below(8)), static_cast<TokenId>(7 + below(2)));  // often the same
    for (const TokenId t : RandomTokens(random, static_cast<size_t>(1 + below(12)), 90))
      r.prompt.push_back(t);
    r.sampling = RandomSampling(random, below(40));
    if (below(2) == 0) r.priority = below(3) - 1;
    if (below(6) == 0) r.cancel_at_s = at + below(4000) / 1e3;
    if (below(6) == 0) r.deadline_s = below(6000) / 1e3;
    if (below(5) == 0) r.cache_salt = "apart";
    if (tenants > 1) r.tenant = {.id = below(tenants), .weight = 1 + below(3), .name = "t"};
    if (below(5) == 0) {
      r.constraint = [count = below(20)] { return std::make_unique<EvenTokens>(count); };
      r.sampling.min_tokens = below(20);  // the constraint overrides it
      r.sampling.logit_bias = {{7, 100.0f}};
    }
    requests.push_back(r);
  }
  return requests;
}

void ExpectSame(const std::vector<execution::TokenLogprobs>& a,
                const std::vector<execution::TokenLogprobs>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].chosen.token, b[i].chosen.token);
    EXPECT_EQ(a[i].chosen.logprob, b[i].chosen.logprob);
    EXPECT_EQ(a[i].rank, b[i].rank);
    ASSERT_EQ(a[i].top.size(), b[i].top.size());
    for (size_t j = 0; j < a[i].top.size(); ++j) EXPECT_EQ(a[i].top[j].token, b[i].top[j].token);
  }
}

// Returns the answer to the request if it runs alone in a large cache.
SimulatedAnswer Alone(SimulatedRequest request, const EngineOptions& loaded) {
  SimulationOptions options{.engine = loaded};
  options.engine.kv_blocks = 2000;
  options.engine.deterministic = false;
  options.engine.limits = {
      .sequences_max = 1, .step_tokens = 1000, .block_tokens = loaded.limits.block_tokens};
  request.at_s = 0;
  request.cancel_at_s = request.deadline_s = 1e18;
  return Simulation(options).Run({request})[0];
}

void CheckAnswer(const SimulatedRequest& request, const SimulatedAnswer& answer, const SimulatedAnswer& alone,
                 double longest_step_s) {
  const bool whole = answer.finish == FinishReason::kStop || answer.finish == FinishReason::kLength;
  if (whole) {
    EXPECT_EQ(answer.finish, alone.finish);
    EXPECT_EQ(answer.tokens, alone.tokens);
    ExpectSame(answer.logprobs, alone.logprobs);
    ExpectSame(answer.prompt_logprobs, alone.prompt_logprobs);
    return;
  }
  ASSERT_LE(answer.tokens.size(), alone.tokens.size());
  EXPECT_TRUE(std::equal(answer.tokens.begin(), answer.tokens.end(), alone.tokens.begin()));
  if (answer.finish == FinishReason::kCancelled) {
    EXPECT_GE(answer.end_s, request.cancel_at_s);
    return;
  }
  ASSERT_EQ(answer.finish, FinishReason::kError);
  ASSERT_EQ(answer.error.code(), absl::StatusCode::kDeadlineExceeded) << answer.error;
  EXPECT_GE(answer.end_s, request.at_s + request.deadline_s - 1e-6);
  EXPECT_LE(answer.end_s, std::max(request.at_s, request.at_s + request.deadline_s) + longest_step_s);
}

TEST(SchedulerTest, EveryRequestEndsOnceWithTheSameResultAsAlone) {
  std::mt19937 random(21);
  uint64_t preemptions = 0, shared = 0;
  int drawn = 0;
  std::map<FinishReason, int> ends;
  for (int round = 0; round < 300; ++round) {
    SimulationOptions options = RandomOptions(random);
    options.device_draws = round % 2 == 1;
    const std::vector<SimulatedRequest> requests = RandomRequests(random);
    Simulation simulation(options);
    const std::vector<SimulatedAnswer> answers = simulation.Run(requests);
    for (size_t i = 0; i < requests.size(); ++i) {
      CheckAnswer(requests[i], answers[i], Alone(requests[i], options.engine), 0.2);
      if (HasFailure()) FAIL() << "round " << round << ", request " << i;
      ++ends[answers[i].finish];
    }
    preemptions += simulation.Stats().preemptions;
    shared += simulation.Stats().prefix_hit_tokens;
    drawn += simulation.rows_drawn();
  }
  EXPECT_GT(drawn, 5'000);
  EXPECT_GT(preemptions, 200u);
  EXPECT_GT(shared, 5'000u);
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled, FinishReason::kError})
    EXPECT_GT(ends[reason], 50) << "reason " << static_cast<int>(reason);
}

SimulationOptions Roomy() {
  return {.engine = {.limits = {.sequences_max = 8, .step_tokens = 64, .block_tokens = 4},
                     .kv_blocks = 2000,
                     .max_model_len = 4000,
                     .vocab = ScriptedModel::kVocab}};
}

SamplingParams Greedy(int max_tokens) { return {.temperature = 0, .max_tokens = max_tokens}; }

TEST(SchedulerTest, TheQueueIsSortedByPriorityThenArrival) {
  SimulationOptions options = Roomy();
  options.engine.limits.sequences_max = 1;
  std::vector<SimulatedRequest> requests;
  std::mt19937 random(22);
  for (TokenId i = 0; i < 30; ++i) {
    requests.push_back(
        {.prompt = {i, 2, 3}, .sampling = Greedy(4), .priority = static_cast<int>(random() % 4) - 2});
  }
  const auto answers = Simulation(options).Run(requests);
  std::vector<std::pair<int, size_t>> expected;
  for (size_t i = 0; i < requests.size(); ++i) expected.emplace_back(requests[i].priority, i);
  std::sort(expected.begin(), expected.end());
  for (size_t i = 1; i < expected.size(); ++i)
    EXPECT_LT(answers[expected[i - 1].second].end_s, answers[expected[i].second].end_s) << "position " << i;
}

TEST(SchedulerTest, SequencesOfTheLowestPriorityArePreemptedWhenBlocksRunOut) {
  SimulationOptions options = Roomy();
  options.engine.kv_blocks = 40;  // 160 tokens; eight sequences need 60 each
  std::vector<SimulatedRequest> requests;
  for (TokenId i = 0; i < 8; ++i)
    requests.push_back({.prompt = {i, 2, 3}, .sampling = Greedy(57), .priority = 8 - i});
  Simulation simulation(options);
  const auto answers = simulation.Run(requests);
  EXPECT_GT(simulation.Stats().preemptions, 5u);
  EXPECT_NE(simulation.MetricsText().find("numoe_queue_wait_seconds_count 8\n"), std::string::npos)
      << "the wait of a preempted sequence is not a request's wait";
  for (size_t i = 1; i < requests.size(); ++i) EXPECT_LE(answers[i].end_s, answers[i - 1].end_s) << i;
  // The sequence of the highest priority never had to wait: it got a token in every step.
  for (size_t i = 1; i < answers[7].times_s.size(); ++i)
    EXPECT_LT(answers[7].times_s[i] - answers[7].times_s[i - 1], 0.2);
}

TEST(SchedulerTest, AWorkerThatIsLostTooLongFailsAllRequestsButNoLaterOne) {
  SimulationOptions options = Roomy();
  options.engine.worker_deadline_ms = 1'000;
  options.outages = {{0.5, 3.0}};
  const auto answers = Simulation(options).Run({{.prompt = {1, 2}, .sampling = Greedy(200)},
                                                {.at_s = 0.1, .prompt = {1, 3}, .sampling = Greedy(200)},
                                                {.at_s = 3.5, .prompt = {4}, .sampling = Greedy(20)}});
  for (const size_t i : {0, 1}) {
    EXPECT_EQ(answers[i].error.code(), absl::StatusCode::kUnavailable);
    EXPECT_NEAR(answers[i].end_s, 1.5, 0.1);
  }
  EXPECT_EQ(answers[2].tokens, ScriptedModel::Expected({4}, 20));
}

TEST(SchedulerTest, DeadlinesEndRequestsThatRunWaitOrLackAWorker) {
  SimulationOptions options = Roomy();
  options.engine.limits.sequences_max = 1;
  options.outages = {{4.0, 7.0}};
  const auto answers =
      Simulation(options).Run({{.prompt = {1, 2}, .sampling = Greedy(3000), .deadline_s = 2},
                               {.at_s = 0.1, .prompt = {1, 3}, .sampling = Greedy(2), .deadline_s = 1},
                               {.at_s = 0.2, .prompt = {4}, .sampling = Greedy(3000), .deadline_s = 5}});
  const double expected[] = {2.0, 1.1, 5.2};
  for (const size_t i : {0, 1, 2}) {
    EXPECT_EQ(answers[i].error.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_NEAR(answers[i].end_s, expected[i], 0.1);
  }
  EXPECT_THAT(answers[1].error.ToString(), HasSubstr("after 0 of at most 2 tokens"));
  EXPECT_GT(answers[0].tokens.size(), 30u);
}

TEST(SchedulerTest, PromptProbabilitiesAreThoseOfEveryPosition) {
  SimulationOptions options = Roomy();
  options.engine.limits.prompt_logit_rows = 7;  // so few that prompts are divided
  std::vector<TokenId> prompt = {8, 9};
  for (const TokenId t : ScriptedModel::Expected(prompt, 30)) prompt.push_back(t);
  prompt.push_back(prompt.back() == 0 ? 1 : 0);  // a token that the model would not have drawn
  const SimulatedRequest plain{.prompt = prompt, .sampling = Greedy(3)};
  SimulatedRequest asking = plain;
  asking.at_s = 1;  // when the prompt is in the cache
  asking.sampling.prompt_logprobs = 2;
  asking.sampling.logprobs = 0;
  SimulatedRequest only = asking;
  only.sampling.max_tokens = 0;
  const auto answers = Simulation(options).Run({plain, asking, only});
  const double log_total = std::log(std::exp(10.0) + ScriptedModel::kVocab - 1);
  EXPECT_TRUE(answers[0].prompt_logprobs.empty() && answers[0].logprobs.empty());
  EXPECT_EQ(answers[1].cached_prompt_tokens, 0) << "every position must be computed";
  for (const size_t i : {1, 2}) {
    const auto& found = answers[i].prompt_logprobs;
    ASSERT_EQ(found.size(), prompt.size() - 1);
    for (size_t p = 0; p < found.size(); ++p) {
      EXPECT_EQ(found[p].chosen.token, prompt[p + 1]);
      const bool said = p > 0 && p + 1 < found.size();
      EXPECT_EQ(found[p].rank, said ? 1 : 2) << p;
      EXPECT_NEAR(found[p].chosen.logprob, (said ? 10.0 : 0.0) - log_total, 1e-5) << p;
      ASSERT_EQ(found[p].top.size(), 2u);
      EXPECT_NEAR(found[p].top[0].logprob, 10.0 - log_total, 1e-5) << p;
    }
  }
  ASSERT_EQ(answers[1].logprobs.size(), 3u);
  EXPECT_TRUE(answers[1].logprobs[0].top.empty());
  EXPECT_EQ(answers[1].tokens, ScriptedModel::Expected(prompt, 3));
  EXPECT_TRUE(answers[2].tokens.empty());
  EXPECT_EQ(answers[2].finish, FinishReason::kLength);
}

TEST(SchedulerTest, MinTokensForbidAnEarlyEnd) {
  SimulationOptions options = Roomy();
  const auto said = ScriptedModel::Expected({9}, 1);
  options.engine.eos_token_ids = {said[0]};
  SimulatedRequest request{.prompt = {9}, .sampling = Greedy(20)};
  EXPECT_EQ(Simulation(options).Run({request})[0].tokens.size(), 1u);
  request.sampling.min_tokens = 6;
  request.sampling.logit_bias = {{said[0], 100.0f}};
  const auto answer = Simulation(options).Run({request})[0];
  ASSERT_EQ(answer.tokens.size(), 7u) << "the biased end token is drawn as soon as it is allowed";
  EXPECT_EQ(answer.tokens.back(), said[0]);
  EXPECT_EQ(answer.finish, FinishReason::kStop);
}

TEST(SchedulerTest, OnlyAllowedTokensAreDrawn) {
  SimulatedRequest request{
      .prompt = {9}, .sampling = {.temperature = 3, .max_tokens = 50, .allowed_token_ids = {4, 65, 96}}};
  const auto allowed = Simulation(Roomy()).Run({request})[0];
  EXPECT_EQ(allowed.tokens.size(), 50u);
  for (const TokenId t : allowed.tokens) EXPECT_TRUE(t == 4 || t == 65 || t == 96) << t;
  request.constraint = [] { return std::make_unique<EvenTokens>(9); };
  const auto both = Simulation(Roomy()).Run({request})[0];
  EXPECT_EQ(both.finish, FinishReason::kError) << "no token is left when the constraint allows only the end";
  EXPECT_EQ(both.tokens.size(), 9u);
  for (const TokenId t : both.tokens) EXPECT_TRUE(t == 4 || t == 96) << t;
}

TEST(SchedulerTest, ARowWithNanFailsItsSequenceWhereverItIsDrawn) {
  for (const bool device_draws : {false, true}) {
    SimulationOptions options = Roomy();
    options.device_draws = device_draws;
    options.nan_token = ScriptedModel::Expected({9}, 3).back();
    std::vector<SimulatedRequest> requests;
    for (TokenId i = 0; i < 40; ++i) requests.push_back({.prompt = {i}, .sampling = Greedy(12)});
    const auto answers = Simulation(options).Run(requests);
    for (TokenId i = 0; i < 40; ++i) {
      const auto said = ScriptedModel::Expected({i}, 12);
      const auto bad = std::find(said.begin(), said.end(), options.nan_token);
      const SimulatedAnswer& answer = answers[static_cast<size_t>(i)];
      EXPECT_EQ(answer.tokens, std::vector<TokenId>(said.begin(), bad)) << i;
      EXPECT_EQ(answer.error.code(), bad == said.end() ? absl::StatusCode::kOk : absl::StatusCode::kDataLoss);
    }
    EXPECT_EQ(answers[9].tokens.size(), 2u);
  }
}

// Fails when it is asked for a mask the third time.
class FailingConstraint final : public execution::TokenConstraint {
 public:
  absl::StatusOr<absl::Span<const uint64_t>> Mask() override {
    if (++asked_ == 3) return absl::ResourceExhaustedError("too ambiguous");
    return absl::Span<const uint64_t>();
  }
  void Accept(TokenId) override {}

 private:
  int asked_ = 0;
};

TEST(SchedulerTest, AConstraintThatFailsBeforeTheStepFailsOnlyItsSequence) {
  for (const bool device_draws : {false, true}) {
    SimulationOptions options = Roomy();
    options.device_draws = device_draws;
    SimulatedRequest failing{.prompt = {9}, .sampling = Greedy(20)};
    failing.constraint = [] { return std::make_unique<FailingConstraint>(); };
    const auto answers = Simulation(options).Run({failing, {.prompt = {8}, .sampling = Greedy(20)}});
    EXPECT_EQ(answers[0].error.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_EQ(answers[0].tokens, ScriptedModel::Expected({9}, 2));
    EXPECT_EQ(answers[1].tokens, ScriptedModel::Expected({8}, 20));
  }
}

TEST(SchedulerTest, ErrorsNameTheWrongParameter) {
  const auto refusal = [](const SamplingParams& sampling, std::vector<TokenId> prompt = {1}) {
    const SequenceLimits limits{.tokens_max = 10, .vocab = 50};
    const auto made = MakeSequence({.prompt = std::move(prompt), .sampling = sampling}, limits);
    EXPECT_TRUE(made.ok() || absl::IsInvalidArgument(made.status()));
    return std::string(made.status().message());
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.logit_bias = {{50, 1.0f}}}),
            "logit_bias: token 50 is not in the vocabulary of 50 tokens");
  EXPECT_THAT(refusal({.logit_bias = {{5, NAN}}}), HasSubstr("logit_bias"));
  EXPECT_THAT(refusal({.allowed_token_ids = {-1}}), HasSubstr("allowed_token_ids: token -1"));
  EXPECT_THAT(refusal({.repetition_penalty = 0}), HasSubstr("repetition_penalty: 0"));
  EXPECT_THAT(refusal({.presence_penalty = NAN}), HasSubstr("presence_penalty"));
  EXPECT_THAT(refusal({.logprobs = 21}), HasSubstr("logprobs: 21, expected 0 to 20"));
  EXPECT_THAT(refusal({.prompt_logprobs = -1}), HasSubstr("prompt_logprobs: -1"));
  EXPECT_THAT(refusal({}, {3, 51}), HasSubstr("prompt: token 51"));
  EXPECT_THAT(refusal({}, std::vector<TokenId>(10, 1)), HasSubstr("10 tokens"));
}

}  // namespace
}  // namespace numoe::engine
