// A pool of workers against real worker services: all data paths give the same sums, a lost worker is noticed
// and comes back, and workers that do not fit together are refused by name.
#include "coordinator/transport/worker_pool.h"

#include <atomic>
#include <cmath>
#include <numeric>
#include <thread>

#include "coordinator/transport/local_backend.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int kHidden = 64;
constexpr int kWorkerPoolExperts = 8;
constexpr uint64_t kFingerprint = 42;
constexpr int kPerToken = 3;                        // of deferring calls
constexpr int kDeferred = 1;                        // of them
constexpr int kDeferredHangs = 7;                   // layer
constexpr int64_t kWorkerPoolPatienceMs = 120'000;  // under TSan on a busy machine one call can take seconds

// Something an executor could compute, different for every slice, layer, expert and channel.
class Formula final : public LayerExecutor {
 public:
  explicit Formula(int slice) : slice_(slice) {}
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    if (call.layer == 99) return absl::InvalidArgumentError("layer 99 does not exist");
    if (call.layer == kDeferredHangs && call.experts_per_token == kDeferred) hang_.wait(true);
    std::fill(out.begin(), out.end(), 0.0f);
    for (int t = 0; t < call.tokens; ++t) {
      for (int k = 0; k < call.experts_per_token; ++k) {
        const int entry = t * call.experts_per_token + k;
        for (int c = 0; c < kHidden; ++c) {
          out[t * kHidden + c] += call.weights[entry] *
                                  std::sin(call.hidden[t * kHidden + c] *
                                           static_cast<float>(call.experts[entry] + 1 + slice_ + call.layer));
        }
      }
    }
    return absl::OkStatus();
  }
  // Deferred experts of layer kDeferredHangs are not computed until GoOn.
  void Hang() { hang_.store(true); }
  void GoOn() {
    hang_.store(false);
    hang_.notify_all();
  }

 private:
  const int slice_;
  std::atomic<bool> hang_{false};
};

class WorkerPoolTest : public ::testing::Test {
 protected:
  std::unique_ptr<WorkerService> Serve(int index, int count, const std::string& listen,
                                       uint64_t fingerprint = kFingerprint,
                                       const ExpertStatistics* statistics = nullptr,
                                       bool slice_by_expert = false) {
    formulas_.push_back(std::make_unique<Formula>(index));
    auto service = WorkerService::Start(*formulas_.back(), {.listen = listen,
                                                            .model_fingerprint = fingerprint,
                                                            .slice_by_expert = slice_by_expert,
                                                            .worker_index = index,
                                                            .worker_count = count,
                                                            .hidden_size = kHidden,
                                                            .num_experts = kWorkerPoolExperts,
                                                            .experts_per_token = 2,
                                                            .description = "formula",
                                                            .statistics = statistics});
    EXPECT_TRUE(service.ok()) << service.status();
    return service.ok() ? *std::move(service) : nullptr;
  }
  std::string Path(const std::string& name) const {
    return "unix:" + ::testing::TempDir() + "/pool-" + std::to_string(getpid()) + name;
  }
  absl::StatusOr<std::unique_ptr<WorkerPool>> Connect(std::vector<std::string> addresses, DataPath path,
                                                      int64_t deadline_ms = kWorkerPoolPatienceMs) {
    return WorkerPool::Create({.addresses = std::move(addresses),
                               .link = {.data_path = path,
                                        .model_fingerprint = kFingerprint,
                                        .hidden_size = kHidden,
                                        .num_experts = kWorkerPoolExperts,
                                        .call_deadline_ms = kWorkerPoolPatienceMs},
                               .start_deadline_ms = deadline_ms},
                              metrics_);
  }
  // One call of `tokens` tokens; the result or the error.
  absl::StatusOr<std::vector<float>> Call(ExpertBackend& backend, int tokens, int layer = 1) {
    hidden_.resize(static_cast<size_t>(tokens) * kHidden);
    for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = std::sin(static_cast<float>(i));
    experts_.resize(static_cast<size_t>(tokens) * 2);
    weights_.resize(experts_.size());
    for (size_t i = 0; i < experts_.size(); ++i) {
      experts_[i] = static_cast<ExpertId>((i * 5 + i / 2) % kWorkerPoolExperts);
      weights_[i] = 0.1f * static_cast<float>(i % 7 + 1);
    }
    std::vector<float> out(hidden_.size(), 0.5f);
    absl::Status status = backend.Start({.layer = layer,
                                         .tokens = tokens,
                                         .experts_per_token = 2,
                                         .hidden = hidden_,
                                         .experts = experts_,
                                         .weights = weights_});
    if (status.ok()) status = backend.Finish(absl::MakeSpan(out));
    if (!status.ok()) return status;
    return out;
  }

  // A call of kPerToken experts, kDeferred of them deferred.
  absl::Status StartDeferring(ExpertBackend& backend, int tokens, int layer = 1) {
    hidden_.resize(static_cast<size_t>(tokens) * kHidden);
    for (size_t i = 0; i < hidden_.size(); ++i) hidden_[i] = std::sin(static_cast<float>(i));
    experts_.resize(static_cast<size_t>(tokens) * kPerToken);
    weights_.resize(experts_.size());
    for (size_t i = 0; i < experts_.size(); ++i) {
      experts_[i] = static_cast<ExpertId>((i * 3 + i / 3) % kWorkerPoolExperts);
      weights_[i] = 0.1f * static_cast<float>(i % 7 + 1);
    }
    return backend.Start({.layer = layer,
                          .tokens = tokens,
                          .experts_per_token = kPerToken,
                          .deferred_experts = kDeferred,
                          .hidden = hidden_,
                          .experts = experts_,
                          .weights = weights_});
  }
  // Both sums of such a call, one after the other.
  absl::StatusOr<std::vector<float>> CallDeferring(ExpertBackend& backend, int tokens, int layer = 1) {
    absl::Status status = StartDeferring(backend, tokens, layer);
    std::vector<float> both(2 * hidden_.size(), 0.5f);
    if (status.ok()) status = backend.Finish(absl::MakeSpan(both).subspan(0, hidden_.size()));
    // The call's spans are the next layer's by now.
    std::fill(hidden_.begin(), hidden_.end(), -1.0f);
    std::fill(weights_.begin(), weights_.end(), -1.0f);
    if (status.ok()) status = backend.FinishDeferred(absl::MakeSpan(both).subspan(hidden_.size()));
    if (!status.ok()) return status;
    return both;
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  std::vector<std::unique_ptr<Formula>> formulas_;
  std::vector<float> hidden_, weights_;
  std::vector<ExpertId> experts_;
};

TEST_F(WorkerPoolTest, AllDataPathsGiveTheSameBits) {
  Formula zero(0), one(1);
  LocalBackend local({&zero, &one});
  const auto first = Serve(0, 2, Path("a"));
  const auto second = Serve(1, 2, "127.0.0.1:0");
  // The addresses are given in the other order than the slices.
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc, DataPath::kAuto}) {
    const auto pool = Connect({second->address(), first->address()}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    for (const int tokens : {1, 3, 500}) {
      const auto expected = Call(local, tokens);
      const auto actual = Call(**pool, tokens);
      ASSERT_TRUE(actual.ok()) << actual.status();
      EXPECT_EQ(*actual, *expected) << tokens << " tokens";
    }
  }
}

TEST_F(WorkerPoolTest, DeferredSumsAreTheSameBitsOnAllDataPaths) {
  Formula zero(0), one(1);
  LocalBackend local({&zero, &one});
  const auto first = Serve(0, 2, Path("p"));
  const auto second = Serve(1, 2, "127.0.0.1:0");
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc, DataPath::kAuto}) {
    const auto pool = Connect({second->address(), first->address()}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    for (const int tokens : {1, 3, 500}) {
      const auto expected = CallDeferring(local, tokens);
      ASSERT_TRUE(expected.ok()) << expected.status();
      // Both sums against a call without deferred experts, but for the order of additions.
      StartDeferring(local, tokens).IgnoreError();
      std::vector<float> whole(hidden_.size());
      ASSERT_TRUE(local
                      .Start({.layer = 1,
                              .tokens = tokens,
                              .experts_per_token = kPerToken,
                              .hidden = hidden_,
                              .experts = experts_,
                              .weights = weights_})
                      .ok());
      ASSERT_TRUE(local.Finish(absl::MakeSpan(whole)).ok());
      for (size_t i = 0; i < whole.size(); ++i)
        ASSERT_NEAR(whole[i], (*expected)[i] + (*expected)[whole.size() + i] - 1.0f, 1e-5) << i;
      const auto actual = CallDeferring(**pool, tokens);
      ASSERT_TRUE(actual.ok()) << actual.status();
      EXPECT_EQ(*actual, *expected) << tokens << " tokens";
      EXPECT_TRUE(Call(**pool, tokens).ok()) << "calls without deferred experts go on";
    }
  }
}

TEST_F(WorkerPoolTest, TheEngineGoesOnWhileDeferredExpertsAreComputed) {
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto service = Serve(0, 1, Path("q"));
    Formula& formula = *formulas_.back();
    const auto pool = Connect({service->address()}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    const auto expected = CallDeferring(**pool, 2, kDeferredHangs);
    formula.Hang();
    ASSERT_TRUE(StartDeferring(**pool, 2, kDeferredHangs).ok());
    std::vector<float> both(2 * hidden_.size(), 0.5f);
    // Returns although the deferred part cannot.
    ASSERT_TRUE((*pool)->Finish(absl::MakeSpan(both).subspan(0, hidden_.size())).ok());
    formula.GoOn();
    ASSERT_TRUE((*pool)->FinishDeferred(absl::MakeSpan(both).subspan(hidden_.size())).ok());
    EXPECT_EQ(both, *expected);
  }
}

// A step that was given up leaves its deferred experts with the workers: the next call gets its own sums.
TEST_F(WorkerPoolTest, WhatAGivenUpStepLeftIsDropped) {
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto service = Serve(0, 1, Path("r"));
    const auto pool = Connect({service->address()}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    const auto expected = CallDeferring(**pool, 3, /*layer=*/2);
    const auto plain = Call(**pool, 2);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(StartDeferring(**pool, 5 + i).ok());
      std::vector<float> sums(hidden_.size());
      ASSERT_TRUE((*pool)->Finish(absl::MakeSpan(sums)).ok());
      if (i == 1) {
        EXPECT_EQ(*Call(**pool, 2), *plain);
      } else {
        EXPECT_EQ(*CallDeferring(**pool, 3, /*layer=*/2), *expected);
      }
    }
    EXPECT_EQ(metrics_.With(CounterId::kWorkerLost, {service->address()}).Value(), 0)
        << "no session was lost";
  }
}

// One of two workers dies with deferred experts outstanding: the step is lost, the other one's reply to it is
// not taken for another's.
TEST_F(WorkerPoolTest, AWorkerLostWithDeferredExpertsLosesTheStepOnly) {
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto stays = Serve(0, 2, Path("s"));
    auto dies = Serve(1, 2, Path("t"));
    const auto pool = Connect({stays->address(), dies->address()}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    const auto expected = CallDeferring(**pool, 2, kDeferredHangs);
    for (const bool before_finish : {false, true}) {
      Formula& dying = *formulas_.back();
      dying.Hang();
      ASSERT_TRUE(StartDeferring(**pool, 2, kDeferredHangs).ok());
      std::vector<float> sums(hidden_.size());
      if (!before_finish) {
        ASSERT_TRUE((*pool)->Finish(absl::MakeSpan(sums)).ok());
      }
      std::thread killer([&] { dies.reset(); });
      dying.GoOn();
      killer.join();
      if (before_finish) (void)(*pool)->Finish(absl::MakeSpan(sums));  // may have come just in time
      dies = Serve(1, 2, Path("t"));
      ASSERT_TRUE((*pool)->AwaitReady(kWorkerPoolPatienceMs).ok());
      const auto again = CallDeferring(**pool, 2, kDeferredHangs);
      if (again.ok()) {
        EXPECT_EQ(*again, *expected);
      } else {  // its death was noticed only now
        EXPECT_TRUE(absl::IsUnavailable(again.status())) << again.status();
        ASSERT_TRUE((*pool)->AwaitReady(kWorkerPoolPatienceMs).ok());
        EXPECT_EQ(*CallDeferring(**pool, 2, kDeferredHangs), *expected);
      }
    }
  }
}

TEST_F(WorkerPoolTest, AnErrorOfDeferredCallsIsReportedAndTheSessionRecovers) {
  const auto service = Serve(0, 1, Path("u"));
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto pool = Connect({service->address()}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_THAT(CallDeferring(**pool, 1, /*layer=*/99).status().ToString(), HasSubstr("layer 99"));
    ASSERT_TRUE((*pool)->AwaitReady(kWorkerPoolPatienceMs).ok());
    EXPECT_TRUE(CallDeferring(**pool, 1).ok());
  }
}

TEST_F(WorkerPoolTest, AnExecutorsErrorIsReportedAndTheSessionRecovers) {
  const auto service = Serve(0, 1, Path("b"));
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto pool = Connect({service->address()}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    EXPECT_THAT(Call(**pool, 1, /*layer=*/99).status().ToString(), HasSubstr("layer 99"));
    ASSERT_TRUE((*pool)->AwaitReady(kWorkerPoolPatienceMs).ok());
    EXPECT_TRUE(Call(**pool, 1).ok());
  }
}

TEST_F(WorkerPoolTest, ActivityTellsACallFromWhatIsBetweenCalls) {
  const auto service = Serve(0, 1, Path("r"));
  const auto pool = Connect({service->address()}, DataPath::kAuto);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_FALSE((*pool)->Activity().in_call);
  while ((*pool)->Activity().seconds < 0.01) std::this_thread::yield();
  ASSERT_TRUE(StartDeferring(**pool, 2).ok());
  EXPECT_TRUE((*pool)->Activity().in_call);
  std::vector<float> both(2 * hidden_.size());
  ASSERT_TRUE((*pool)->Finish(absl::MakeSpan(both).subspan(0, hidden_.size())).ok());
  EXPECT_FALSE((*pool)->Activity().in_call) << "nobody waits while deferred experts are computed";
  ASSERT_TRUE((*pool)->FinishDeferred(absl::MakeSpan(both).subspan(hidden_.size())).ok());
  const CallActivity after = (*pool)->Activity();
  EXPECT_FALSE(after.in_call);
  while ((*pool)->Activity().seconds <= after.seconds) std::this_thread::yield();
}

TEST_F(WorkerPoolTest, ALostWorkerIsNoticedAndComesBack) {
  const std::string address = Path("c");
  auto service = Serve(0, 1, address);
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    if (service == nullptr) service = Serve(0, 1, address);
    const auto pool = Connect({address}, path);
    ASSERT_TRUE(pool.ok()) << pool.status();
    const auto before = Call(**pool, 2);
    service.reset();
    absl::StatusOr<std::vector<float>> during = Call(**pool, 2);
    EXPECT_EQ(during.status().code(), absl::StatusCode::kUnavailable) << during.status();
    EXPECT_FALSE((*pool)->Ready());
    EXPECT_THAT((*pool)->AwaitReady(30).ToString(), HasSubstr(address));
    service = Serve(0, 1, address);
    ASSERT_TRUE((*pool)->AwaitReady(kWorkerPoolPatienceMs).ok());
    EXPECT_EQ(*Call(**pool, 2), *before);
  }
}

TEST_F(WorkerPoolTest, WorkersThatDoNotFitAreRefusedByName) {
  const auto zero = Serve(0, 2, Path("d"));
  const auto twin = Serve(0, 2, Path("e"));
  // Whoever of them is connected first.
  EXPECT_THAT(Connect({zero->address(), twin->address()}, DataPath::kAuto).status().ToString(),
              AnyOf(HasSubstr("it is slice 0 of 2, which worker " + zero->address() + " serves already"),
                    HasSubstr("it is slice 0 of 2, which worker " + twin->address() + " serves already")));
  EXPECT_THAT(Connect({zero->address()}, DataPath::kAuto).status().ToString(), HasSubstr("--worker-count=1"));
  const auto other = Serve(0, 1, Path("f"), /*fingerprint=*/7);
  EXPECT_THAT(Connect({other->address()}, DataPath::kAuto).status().ToString(), HasSubstr("fingerprint"));
  EXPECT_THAT(Connect({"unix:/nonexistent/numoe"}, DataPath::kAuto, 300).status().ToString(),
              HasSubstr("/nonexistent/numoe"));
}

TEST_F(WorkerPoolTest, TwoCoordinatorsShareAWorker) {
  const auto service = Serve(0, 1, Path("g"));
  const auto first = Connect({service->address()}, DataPath::kSharedMemory);
  const auto second = Connect({service->address()}, DataPath::kSharedMemory);
  ASSERT_TRUE(first.ok() && second.ok());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(*Call(**first, 1 + i), *Call(**second, 1 + i));
  EXPECT_EQ(service->Stats().sessions, 2);
}

TEST_F(WorkerPoolTest, RowsOfExpertsAreCountedOnce) {
  for (const bool slice_by_expert : {false, true}) {
    ExpertStatistics first(2, kWorkerPoolExperts), second(2, kWorkerPoolExperts);
    const auto count = [](ExpertStatistics& statistics, ExpertId expert, int rows) {
      const ExpertGroup group{.expert = expert, .row_begin = 0, .rows = rows};
      statistics.Count(/*layer=*/1, rows, {&group, 1}, std::chrono::microseconds(1));
    };
    count(first, 2, 5);
    count(second, slice_by_expert ? 3 : 2, 5);
    const auto zero = Serve(0, 2, Path("i"), kFingerprint, &first, slice_by_expert);
    const auto one = Serve(1, 2, "127.0.0.1:0", kFingerprint, &second, slice_by_expert);
    std::vector<uint64_t> expected(2 * kWorkerPoolExperts);
    expected[kWorkerPoolExperts + 2] = 5;
    if (slice_by_expert) expected[kWorkerPoolExperts + 3] = 5;
    for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
      const auto pool = Connect({zero->address(), one->address()}, path);
      ASSERT_TRUE(pool.ok()) << pool.status();
      const auto rows = (*pool)->CountedRows();
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(rows->layers, 2);
      EXPECT_EQ(rows->experts, kWorkerPoolExperts);
      EXPECT_EQ(rows->rows, expected);
    }
  }
}

TEST_F(WorkerPoolTest, RowsOfExpertsComeFromThoseWhoAnswer) {
  ExpertStatistics statistics(1, kWorkerPoolExperts);
  const auto silent = Serve(0, 2, Path("j"));  // keeps none
  auto counting = Serve(1, 2, Path("k"), kFingerprint, &statistics);
  const auto pool = Connect({silent->address(), counting->address()}, DataPath::kAuto);
  ASSERT_TRUE(pool.ok()) << pool.status();
  const auto rows = (*pool)->CountedRows();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows.size(), static_cast<size_t>(kWorkerPoolExperts));
  counting.reset();
  EXPECT_THAT((*pool)->CountedRows().status().ToString(), HasSubstr("no worker tells its statistics"));
}

TEST_F(WorkerPoolTest, StatisticsOfAnotherShapeAreRefused) {
  ExpertStatistics statistics(1, kWorkerPoolExperts + 1);
  const auto service = Serve(0, 1, Path("l"), kFingerprint, &statistics);
  const auto pool = Connect({service->address()}, DataPath::kAuto);
  ASSERT_TRUE(pool.ok()) << pool.status();
  EXPECT_THAT((*pool)->CountedRows().status().ToString(), HasSubstr("1 layers of 9 experts, expected 8"));
}

// What a GPU does with a port: plain stores into the mailbox, then a wait for the reply's counter.
absl::StatusOr<std::vector<float>> CallAsDevice(const DirectPort& port, int number, uint64_t call_id,
                                                LayerCallView call, const std::atomic<uint32_t>& release) {
  call.instance = port.instance;
  *port.request_length = EncodeRequest(call_id, call, port.request);
  std::atomic_ref(*port.request_published).store(port.requests + number + 1, std::memory_order_release);
  const std::atomic_ref replies(*const_cast<uint32_t*>(port.reply_published));
  while (replies.load(std::memory_order_acquire) != port.replies + number + 1) {
    if (release.load() != 0) return absl::UnavailableError("released");
  }
  const size_t bytes = ReplyBytes(call.tokens, kHidden);
  const auto partial = DecodeReply(port.reply.subspan(0, bytes), call_id, call.hidden.size());
  if (!partial.ok()) return partial.status();
  return std::vector<float>(partial->begin(), partial->end());
}

TEST_F(WorkerPoolTest, ADeviceMakesItsOwnCallsAndTheHostGoesOn) {
  Formula zero(0);
  const auto service = Serve(0, 1, Path("m"));
  const auto pool = Connect({service->address()}, DataPath::kSharedMemory);
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_TRUE(Call(**pool, 2).ok());
  const LayerCallView view{.layer = 1,
                           .tokens = 2,
                           .experts_per_token = 2,
                           .hidden = hidden_,
                           .experts = experts_,
                           .weights = weights_};
  std::vector<float> expected(hidden_.size());
  ASSERT_TRUE(zero.Execute(view, absl::MakeSpan(expected)).ok());
  std::atomic<uint32_t> release{1};
  for (int step = 0; step < 3; ++step) {
    const auto direct = (*pool)->BeginDirect(&release);
    ASSERT_TRUE(direct.ok()) << direct.status();
    EXPECT_EQ(release.load(), 0u);
    for (int i = 0; i < 4; ++i) {
      // Longer than a reader spins by itself: awake, it must not have gone to sleep.
      if (i == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const auto sums = CallAsDevice(direct->ports[0], i, direct->first_call_id + i, view, release);
      ASSERT_TRUE(sums.ok()) << sums.status();
      EXPECT_EQ(*sums, expected);
    }
    ASSERT_TRUE((*pool)->EndDirect(4, 0, absl::OkStatus()).ok());
    EXPECT_EQ(Call(**pool, 2), Call(**pool, 2)) << "the host's own calls go on where the device left";
  }
}

TEST_F(WorkerPoolTest, ADeviceIsReleasedWhenItsWorkerIsGone) {
  auto service = Serve(0, 1, Path("n"));
  const auto pool = Connect({service->address()}, DataPath::kSharedMemory);
  ASSERT_TRUE(pool.ok()) << pool.status();
  std::atomic<uint32_t> release{0};
  ASSERT_TRUE((*pool)->BeginDirect(&release).ok());
  service.reset();
  while (release.load() == 0) std::this_thread::yield();
  const absl::Status ended = (*pool)->EndDirect(0, 0, absl::UnavailableError("the device waited in vain"));
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  service = Serve(0, 1, Path("n"));
  ASSERT_TRUE((*pool)->AwaitReady(kWorkerPoolPatienceMs).ok());
  EXPECT_TRUE(Call(**pool, 2).ok());
}

TEST_F(WorkerPoolTest, NoDirectCallsThroughAStream) {
  const auto service = Serve(0, 1, Path("o"));
  const auto pool = Connect({service->address()}, DataPath::kGrpc);
  ASSERT_TRUE(pool.ok()) << pool.status();
  std::atomic<uint32_t> release{0};
  EXPECT_TRUE(absl::IsUnimplemented((*pool)->BeginDirect(&release).status()));
  EXPECT_TRUE(Call(**pool, 2).ok());
}

TEST_F(WorkerPoolTest, ALiveSocketIsNotStolen) {
  const auto service = Serve(0, 1, Path("h"));
  Formula formula(0);
  EXPECT_THAT(
      WorkerService::Start(
          formula, {.listen = service->address(), .hidden_size = kHidden, .num_experts = kWorkerPoolExperts})
          .status()
          .ToString(),
      HasSubstr("another process"));
}

}  // namespace
}  // namespace numoe
