// The engine with a scripted model: the text of every stream is the same as if it ran alone, with arrivals,
// cancellations, preemption, chunked prompts and lost steps. Limits refuse requests, and no block leaks.
#include "coordinator/engine/scheduler/engine_loop.h"

#include <condition_variable>
#include <latch>
#include <mutex>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/engine/scheduler/scripted_model.h"

namespace numoe::engine {
namespace {

using ::testing::HasSubstr;

class SwitchedBackend final : public execution::ExpertBackend {
 public:
  absl::Status Start(const LayerCallView&) override { return absl::OkStatus(); }
  absl::Status Finish(absl::Span<float>) override { return absl::OkStatus(); }
  absl::Status AwaitReady(int64_t deadline_ms) override {
    if (ready_) return absl::OkStatus();
    std::this_thread::sleep_for(std::chrono::milliseconds(deadline_ms));
    return absl::DeadlineExceededError("still away");
  }
  bool Ready() const override { return ready_; }
  std::atomic<bool> ready_{true};
};

// Collects one request's events.
class Collector {
 public:
  std::function<void(const TokenEvent&)> Callback() {
    return [this](const TokenEvent& event) {
      const std::lock_guard lock(mutex_);
      EXPECT_EQ(finish_, FinishReason::kNone) << "there is an event after the last one";
      tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
      finish_ = event.finish;
      error_ = event.error;
      cached_ = event.cached_prompt_tokens;
      changed_.notify_all();
    };
  }
  FinishReason Await() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(30), [&] { return finish_ != FinishReason::kNone; }));
    return finish_;
  }
  void AwaitTokens(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(changed_.wait_for(lock, std::chrono::seconds(30), [&] { return tokens_.size() >= count; }));
  }
  std::vector<TokenId> tokens() {
    const std::lock_guard lock(mutex_);
    return tokens_;
  }
  absl::Status error() {
    const std::lock_guard lock(mutex_);
    return error_;
  }
  int64_t cached_prompt_tokens() {
    const std::lock_guard lock(mutex_);
    return cached_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  FinishReason finish_ = FinishReason::kNone;
  absl::Status error_;
  int64_t cached_ = 0;
};

class EngineTest : public ::testing::Test {
 protected:
  void Start(int blocks, EngineOptions options = {}) {
    options.limits.block_tokens = 4;
    options.kv_blocks = blocks;
    options.vocab = ScriptedModel::kVocab;
    if (options.max_model_len == 0) options.max_model_len = 10'000;
    model_ = std::make_unique<ScriptedModel>(blocks, 4);
    engine_ = StartEngine(*model_, backend_, options, metrics_);
  }
  EngineRequest Request(std::vector<TokenId> prompt, int max_tokens, Collector& collector) {
    return {.request_id = "t",
            .prompt = std::move(prompt),
            .sampling = {.temperature = 0, .max_tokens = max_tokens},
            .on_event = collector.Callback()};
  }
  void ExpectIdle() {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while ((engine_->Stats().running > 0 || engine_->Stats().kv_blocks_used > 0) &&
           std::chrono::steady_clock::now() < until)
      std::this_thread::yield();
    EXPECT_EQ(engine_->Stats().kv_blocks_used, 0);
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  SwitchedBackend backend_;
  std::unique_ptr<ScriptedModel> model_;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineTest, ManyStreamsShareStepsAndEachGivesTheSameTextAsAlone) {
  for (const int blocks : {2000, 60}) {  // enough for all; and far too few, so that sequences are preempted
    Start(blocks, {.limits = {.sequences_max = 32, .step_tokens = 24}});
    std::mt19937 random(5);
    std::vector<Collector> collectors(60);
    std::vector<std::vector<TokenId>> prompts;
    std::vector<int> lengths;
    // The engine thread waits in a callback until all are submitted.
    std::latch submitted(1);
    EngineRequest first = Request({1}, 1, collectors[0]);
    first.on_event = [&submitted](const TokenEvent&) { submitted.wait(); };
    ASSERT_TRUE(engine_->Submit(std::move(first)).ok());
    for (Collector& collector : collectors) {
      std::vector<TokenId> prompt(1 + random() % 60);
      for (TokenId& t : prompt) t = static_cast<TokenId>(random() % 90);
      prompts.push_back(prompt);
      lengths.push_back(1 + static_cast<int>(random() % 40));
      ASSERT_TRUE(engine_->Submit(Request(prompt, lengths.back(), collector)).ok());
    }
    submitted.count_down();
    for (size_t i = 0; i < collectors.size(); ++i) {
      EXPECT_EQ(collectors[i].Await(), FinishReason::kLength);
      EXPECT_EQ(collectors[i].tokens(), ScriptedModel::Expected(prompts[i], lengths[i]))
          << "stream " << i << " with " << blocks << " blocks";
    }
    EXPECT_GT(model_->largest_batch_, 4) << "the streams did not share steps";
    ExpectIdle();
    engine_.reset();
  }
}

// Conversations that begin alike, in a cache that has room for few of them: blocks are shared, evicted, and
// found again after preemption, and never contain another conversation's rows.
TEST_F(EngineTest, SharedPrefixesChangeNoText) {
  for (const int blocks : {2000, 80, 34}) {
    for (const bool deterministic : {false, true}) {
      Start(blocks,
            {.limits = {.sequences_max = 12, .step_tokens = 24, .fixed_chunk_tokens = deterministic ? 8 : 0},
             .deterministic = deterministic});
      std::mt19937 random(6);
      std::vector<Collector> collectors(120);
      std::vector<std::vector<TokenId>> prompts;
      int64_t cached = 0;
      for (size_t i = 0; i < collectors.size(); ++i) {
        std::vector<TokenId> prompt(static_cast<size_t>(8 * (random() % 8)),
                                    static_cast<TokenId>(random() % 3));
        for (size_t extra = 1 + random() % 20; extra > 0; --extra)
          prompt.push_back(static_cast<TokenId>(random() % 3));
        prompts.push_back(prompt);
        EngineRequest request = Request(prompt, 12, collectors[i]);
        if (random() % 5 == 0) request.cache_salt = "apart";
        ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
        if (i % 40 == 39) engine_->ResetPrefixCache("");
      }
      for (size_t i = 0; i < collectors.size(); ++i) {
        EXPECT_EQ(collectors[i].Await(), FinishReason::kLength);
        EXPECT_EQ(collectors[i].tokens(), ScriptedModel::Expected(prompts[i], 12)) << i << " with " << blocks;
        cached += collectors[i].cached_prompt_tokens();
      }
      EXPECT_GT(cached, 500) << "nearly nothing was shared with " << blocks << " blocks";
      ExpectIdle();
      engine_.reset();
    }
  }
}

TEST_F(EngineTest, TheNextTurnOfAConversationComputesOnlyNewTokens) {
  Start(500);
  std::vector<TokenId> talk(41, 7);
  Collector first, second, apart, after_reset;
  ASSERT_TRUE(engine_->Submit(Request(talk, 10, first)).ok());
  EXPECT_EQ(first.Await(), FinishReason::kLength);
  EXPECT_EQ(first.cached_prompt_tokens(), 0);
  const std::vector<TokenId> said = first.tokens();
  talk.insert(talk.end(), said.begin(), said.end());
  ASSERT_TRUE(engine_->Submit(Request(talk, 10, second)).ok());
  EXPECT_EQ(second.Await(), FinishReason::kLength);
  EXPECT_EQ(second.cached_prompt_tokens(), 48) << "of 51 tokens 50 have rows, 12 blocks of 4 are full";
  EXPECT_EQ(second.tokens(), ScriptedModel::Expected(talk, 10));
  EngineRequest request = Request(talk, 10, apart);
  request.cache_salt = "tenant";
  ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
  EXPECT_EQ(apart.Await(), FinishReason::kLength);
  EXPECT_EQ(apart.cached_prompt_tokens(), 0);
  engine_->ResetPrefixCache("");
  ASSERT_TRUE(engine_->Submit(Request(talk, 10, after_reset)).ok());
  EXPECT_EQ(after_reset.Await(), FinishReason::kLength);
  EXPECT_EQ(after_reset.cached_prompt_tokens(), 0);
}

TEST_F(EngineTest, BlocksOfASequenceWithNonFiniteLogitsAreNotShared) {
  Start(500);
  const std::vector<TokenId> prompt(9, 4);
  Collector victim, other;
  model_->nan_token_ = ScriptedModel::Expected(prompt, 1)[0];
  ASSERT_TRUE(engine_->Submit(Request(prompt, 5, victim)).ok());
  EXPECT_EQ(victim.Await(), FinishReason::kError);
  model_->nan_token_ = -1;
  ASSERT_TRUE(engine_->Submit(Request(prompt, 5, other)).ok());
  EXPECT_EQ(other.Await(), FinishReason::kLength);
  EXPECT_EQ(other.cached_prompt_tokens(), 0);
}

TEST_F(EngineTest, WithoutPrefixCachingEveryTokenIsComputed) {
  Start(500, {.prefix_caching = false});
  Collector first, second;
  for (Collector* collector : {&first, &second}) {
    ASSERT_TRUE(engine_->Submit(Request(std::vector<TokenId>(41, 7), 10, *collector)).ok());
    EXPECT_EQ(collector->Await(), FinishReason::kLength);
    EXPECT_EQ(collector->cached_prompt_tokens(), 0);
  }
}

TEST_F(EngineTest, CancelledSequencesFreeTheirBlocksWithinOneStep) {
  Start(500);
  std::vector<Collector> collectors(10);
  std::vector<SequenceId> ids;
  for (Collector& collector : collectors)
    ids.push_back(*engine_->Submit(Request({1, 2, 3}, 1900, collector)));
  for (Collector& collector : collectors) collector.AwaitTokens(3);
  for (const SequenceId id : ids) engine_->Cancel(id);
  ExpectIdle();
  engine_->Cancel(ids[0]);  // finished ids are ignored
}

TEST_F(EngineTest, LostStepsAreReplayedAndChangeNothing) {
  Start(500);
  Collector collector;
  model_->failures_left_ = 3;
  ASSERT_TRUE(engine_->Submit(Request({5, 6}, 20, collector)).ok());
  collector.AwaitTokens(4);
  backend_.ready_ = false;
  model_->failures_left_ = 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(60));
  backend_.ready_ = true;
  EXPECT_EQ(collector.Await(), FinishReason::kLength);
  EXPECT_EQ(collector.tokens(), ScriptedModel::Expected({5, 6}, 20));
}

TEST_F(EngineTest, CancellationsAreHandledWhileAWorkerIsLost) {
  Start(500);
  Collector leaver, stayer;
  // The engine thread waits in the callback of the third token until the worker is lost.
  std::latch away(1);
  EngineRequest request = Request({1, 2, 3}, 1900, leaver);
  request.on_event = [&, collect = leaver.Callback(), seen = 0](const TokenEvent& event) mutable {
    collect(event);
    if (++seen == 3) away.wait();
  };
  const absl::StatusOr<SequenceId> id = engine_->Submit(std::move(request));
  ASSERT_TRUE(engine_->Submit(Request({5, 6}, 20, stayer)).ok());
  leaver.AwaitTokens(3);
  backend_.ready_ = false;
  model_->failures_left_ = 1;
  engine_->Cancel(*id);
  away.count_down();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (engine_->Stats().running != 1 && std::chrono::steady_clock::now() < until) std::this_thread::yield();
  EXPECT_EQ(engine_->Stats().running, 1) << "the cancelled stream was kept until the worker came back";
  backend_.ready_ = true;
  EXPECT_EQ(stayer.Await(), FinishReason::kLength);
  EXPECT_EQ(stayer.tokens(), ScriptedModel::Expected({5, 6}, 20));
  ExpectIdle();
}

TEST_F(EngineTest, RequestsFailWhenReadyWorkersLoseEveryStep) {
  Start(500, {.worker_deadline_ms = 50});
  model_->failures_left_ = 1'000'000'000;
  Collector collector;
  ASSERT_TRUE(engine_->Submit(Request({5, 6}, 20, collector)).ok());
  EXPECT_EQ(collector.Await(), FinishReason::kError);
  EXPECT_EQ(collector.error().code(), absl::StatusCode::kUnavailable);
}

TEST_F(EngineTest, RequestsFailWhenTheWorkerDoesNotComeBack) {
  Start(500, {.worker_deadline_ms = 50});
  backend_.ready_ = false;
  model_->failures_left_ = 1'000'000;
  Collector collector;
  ASSERT_TRUE(engine_->Submit(Request({5, 6}, 20, collector)).ok());
  EXPECT_EQ(collector.Await(), FinishReason::kError);
  EXPECT_EQ(collector.error().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(collector.error().ToString(), HasSubstr("no expert worker for 50 ms"));
  ExpectIdle();
}

TEST_F(EngineTest, ALogitThatIsNotANumberFailsOnlyItsSequence) {
  Start(500);
  std::vector<TokenId> poisoned = {1};
  const TokenId bad = ScriptedModel::Expected(poisoned, 1)[0];
  model_->nan_token_ = bad;
  Collector victim, other;
  std::vector<TokenId> healthy = {2};
  while (true) {  // find a prompt whose first tokens are not the one with NaN logits
    const auto expected = ScriptedModel::Expected(healthy, 5);
    if (std::find(expected.begin(), expected.end(), bad) == expected.end()) break;
    ++healthy[0];
  }
  ASSERT_TRUE(engine_->Submit(Request(poisoned, 5, victim)).ok());
  ASSERT_TRUE(engine_->Submit(Request(healthy, 5, other)).ok());
  EXPECT_EQ(victim.Await(), FinishReason::kError);
  EXPECT_EQ(victim.error().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(other.Await(), FinishReason::kLength);
}

TEST_F(EngineTest, StopTokensEndASequence) {
  Start(500);
  const auto expected = ScriptedModel::Expected({9}, 6);
  Collector collector;
  EngineRequest request = Request({9}, 50, collector);
  request.sampling.stop_token_ids = {expected[3]};
  ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
  EXPECT_EQ(collector.Await(), FinishReason::kStop);
  EXPECT_EQ(collector.tokens().back(), expected[3]);
  EXPECT_LE(collector.tokens().size(), 4u);
}

constexpr TokenId kEnd = 4;

// Allows five even tokens except the end token, and then only the end token; fails after `fails_after`
// tokens.
class FiveEvenTokens final : public execution::TokenConstraint {
 public:
  explicit FiveEvenTokens(int fails_after = 100) : fails_after_(fails_after) {}
  absl::StatusOr<absl::Span<const uint64_t>> Mask() override {
    if (said_ == fails_after_) return absl::ResourceExhaustedError("too ambiguous");
    mask_ = {0, 0};
    for (TokenId t = 0; t < ScriptedModel::kVocab; t += 2) {
      if ((t == kEnd) == (said_ == 5)) mask_[static_cast<size_t>(t) / 64] |= uint64_t{1} << (t % 64);
    }
    if (said_ == 5) mask_ = {uint64_t{1} << kEnd, 0};
    return absl::MakeConstSpan(mask_);
  }
  void Accept(TokenId token) override {
    EXPECT_EQ(token % 2, 0);
    EXPECT_EQ(token == kEnd, said_ == 5);
    ++said_;
  }

 private:
  const int fails_after_;
  int said_ = 0;
  std::array<uint64_t, 2> mask_ = {};
};

TEST_F(EngineTest, AConstraintHoldsUnderPreemptionAndEndsItsSequence) {
  for (const int blocks : {2000, 12}) {
    Start(blocks, {.limits = {.sequences_max = 8, .step_tokens = 24}, .eos_token_ids = {kEnd}});
    std::vector<Collector> collectors(12);
    for (size_t i = 0; i < collectors.size(); ++i) {
      EngineRequest request = Request({static_cast<TokenId>(i), 3, 5, 7, 9}, 30, collectors[i]);
      request.constraint = std::make_unique<FiveEvenTokens>();
      request.sampling.ignore_eos = true;  // a complete text ends nevertheless
      ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
    }
    for (Collector& collector : collectors) {
      EXPECT_EQ(collector.Await(), FinishReason::kStop);
      ASSERT_EQ(collector.tokens().size(), 6u);
      EXPECT_EQ(collector.tokens().back(), kEnd);
    }
    ExpectIdle();
    engine_.reset();
  }
}

// Allows any token, also the end token.
class Unconstrained final : public execution::TokenConstraint {
 public:
  absl::StatusOr<absl::Span<const uint64_t>> Mask() override { return absl::Span<const uint64_t>(); }
  void Accept(TokenId) override {}
  bool ends_text() const override { return false; }
};

TEST_F(EngineTest, WithAConstraintThatEndsNoTextIgnoredEndTokensStayIgnored) {
  const std::vector<TokenId> expected = ScriptedModel::Expected({1, 2}, 10);
  Start(2000, {.limits = {.sequences_max = 8, .step_tokens = 24}, .eos_token_ids = {expected[4]}});
  Collector collector;
  EngineRequest request = Request({1, 2}, 10, collector);
  request.constraint = std::make_unique<Unconstrained>();
  request.sampling.ignore_eos = true;
  ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
  EXPECT_EQ(collector.Await(), FinishReason::kLength);
  EXPECT_EQ(collector.tokens(), expected);
  ExpectIdle();
}

TEST_F(EngineTest, AConstraintThatFailsEndsOnlyItsSequence) {
  Start(2000, {.limits = {.sequences_max = 8, .step_tokens = 24}});
  Collector failing, other;
  EngineRequest request = Request({1, 2}, 30, failing);
  request.constraint = std::make_unique<FiveEvenTokens>(/*fails_after=*/2);
  ASSERT_TRUE(engine_->Submit(std::move(request)).ok());
  ASSERT_TRUE(engine_->Submit(Request({3, 4}, 10, other)).ok());
  EXPECT_EQ(failing.Await(), FinishReason::kError);
  EXPECT_THAT(failing.error().ToString(), HasSubstr("too ambiguous"));
  EXPECT_EQ(failing.tokens().size(), 2u);
  EXPECT_EQ(other.Await(), FinishReason::kLength);
  EXPECT_EQ(other.tokens(), ScriptedModel::Expected({3, 4}, 10));
  ExpectIdle();
}

TEST_F(EngineTest, LimitsRefuseWithReasons) {
  Start(10, {.limits = {.sequences_max = 1}, .queue_max = 2});
  Collector first, second, third, fourth;
  EXPECT_THAT(engine_->Submit(Request(std::vector<TokenId>(200, 1), 5, first)).status().ToString(),
              HasSubstr("200 tokens"));
  backend_.ready_ = false;
  model_->failures_left_ = 1'000'000;  // the first sequence never leaves its step
  ASSERT_TRUE(engine_->Submit(Request({1}, 5, first)).ok());
  while (engine_->Stats().waiting > 0) std::this_thread::yield();
  ASSERT_TRUE(engine_->Submit(Request({1}, 5, second)).ok());
  ASSERT_TRUE(engine_->Submit(Request({1}, 5, third)).ok());
  EXPECT_FALSE(engine_->HasRoom({}, {}));
  EXPECT_EQ(engine_->Submit(Request({1}, 5, fourth)).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(engine_->HasRoom({.id = 7}, {})) << "a full queue takes the first request of another tenant";
  EngineRequest other = Request({1}, 5, fourth);
  other.tenant.id = 7;
  EXPECT_TRUE(engine_->Submit(std::move(other)).ok());
  EXPECT_FALSE(engine_->HasRoom({.id = 7}, {})) << "but not a second one, because its part is one of two";
  engine_.reset();
}

// A request with two prompts and three answers to each begins with one sequence for each prompt.
TEST_F(EngineTest, AFullQueueTakesEachTenantsPart) {
  Start(10, {.limits = {.sequences_max = 1}, .queue_max = 4});
  backend_.ready_ = false;
  model_->failures_left_ = 1'000'000;  // the first sequence never leaves its step
  std::vector<Collector> others(5), own(3);
  ASSERT_TRUE(engine_->Submit(Request({1}, 5, others[0])).ok());
  while (engine_->Stats().waiting > 0) std::this_thread::yield();
  for (size_t i = 1; i < 5; ++i) ASSERT_TRUE(engine_->Submit(Request({1}, 5, others[i])).ok());
  const Tenant tenant{.id = 7};
  EXPECT_FALSE(engine_->HasRoom(tenant, {{7, {.requests = 2}}}))
      << "requests that are about to be submitted count";
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(engine_->HasRoom(tenant, {}), i < 2) << i;
    EngineRequest request = Request({1}, 5, own[i]);
    request.tenant = tenant;
    EXPECT_EQ(engine_->Submit(std::move(request)).ok(), i < 2) << "its part is half of four";
  }
  EXPECT_TRUE(engine_->HasRoom({.id = 8, .weight = 2}, {{8, {.requests = 1, .weight = 2}}}))
      << "its part is half of four by its weight";
  EXPECT_FALSE(engine_->HasRoom({}, {}));
  engine_.reset();
}

TEST_F(EngineTest, StatsReportWorkDoneAndTheTimeWithoutProgress) {
  std::atomic<int64_t> now_s{1000};
  Start(500, {.now = [&] { return EngineClock::time_point(std::chrono::seconds(now_s.load())); }});
  EXPECT_EQ(engine_->Stats().stalled_s, 0);
  now_s += 100;  // idle
  EXPECT_EQ(engine_->Stats().stalled_s, 0);
  Collector first, second;
  for (Collector* collector : {&first, &second}) {
    ASSERT_TRUE(engine_->Submit(Request(std::vector<TokenId>(41, 7), 10, *collector)).ok());
    EXPECT_EQ(collector->Await(), FinishReason::kLength);
  }
  ExpectIdle();
  const EngineStats done = engine_->Stats();
  EXPECT_EQ(done.tokens_generated, 20u);
  EXPECT_EQ(done.prefix_query_tokens, 82u);
  EXPECT_EQ(done.prefix_hit_tokens, 40u);
  EXPECT_EQ(done.tokens_computed, 2 * 50u - 40u) << "the last token drawn is not computed";
  EXPECT_EQ(done.stalled_s, 0);
  model_->failures_left_ = 1'000'000'000;
  backend_.ready_ = false;
  Collector stuck;
  const absl::StatusOr<SequenceId> id = engine_->Submit(Request({1, 2}, 10, stuck));
  while (engine_->Stats().running == 0) std::this_thread::yield();
  now_s += 30;
  EXPECT_EQ(engine_->Stats().stalled_s, 30);
  while (engine_->Stats().turn_s > 0) std::this_thread::yield();  // steps are lost, but turns continue
  EXPECT_EQ(engine_->Stats().stalled_s, 30);
  engine_->Cancel(*id);
  ExpectIdle();
  EXPECT_EQ(engine_->Stats().stalled_s, 0);
  EXPECT_EQ(engine_->Stats().turn_s, 0);
}

TEST_F(EngineTest, DrainRefusesNewRequestsAndFinishesRunningOnes) {
  Start(500);
  Collector running, late;
  ASSERT_TRUE(engine_->Submit(Request({3}, 100, running)).ok());
  EXPECT_TRUE(engine_->Drain(10'000));
  EXPECT_EQ(running.Await(), FinishReason::kLength);
  EXPECT_EQ(engine_->Submit(Request({3}, 5, late)).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace numoe::engine
