// Layer calls to real worker services: all data paths give the same sums; a call that fails, is abandoned or
// is not answered in time loses only its step; and a device can make calls itself.
#include "coordinator/execution/transport/expert_fan_out.h"

#include <thread>

#include "common/transport/call_codec.h"
#include "coordinator/execution/transport/local_backend.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/transport/formula_workers.h"

namespace numoe::execution {
namespace {

using ::testing::HasSubstr;

class ExpertFanOutTest : public FormulaWorkers {};

TEST_F(ExpertFanOutTest, AllDataPathsGiveTheSameBits) {
  Formula zero(0), one(1);
  LocalBackend local({&zero, &one});
  const auto first = Serve(0, 2, Path("a"));
  const auto second = Serve(1, 2, "127.0.0.1:0");
  // The addresses are in the reverse order of the slices.
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc, DataPath::kAuto}) {
    const auto workers = Connect({second->address(), first->address()}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    for (const int tokens : {1, 3, 500}) {
      const auto expected = Call(local, tokens);
      const auto actual = Call(**workers, tokens);
      ASSERT_TRUE(actual.ok()) << actual.status();
      EXPECT_EQ(*actual, *expected) << tokens << " tokens";
    }
  }
}

TEST_F(ExpertFanOutTest, DeferredSumsAreTheSameBitsOnAllDataPaths) {
  Formula zero(0), one(1);
  LocalBackend local({&zero, &one});
  const auto first = Serve(0, 2, Path("p"));
  const auto second = Serve(1, 2, "127.0.0.1:0");
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc, DataPath::kAuto}) {
    const auto workers = Connect({second->address(), first->address()}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    for (const int tokens : {1, 3, 500}) {
      const auto expected = CallDeferring(local, tokens);
      ASSERT_TRUE(expected.ok()) << expected.status();
      // The two sums together equal those of a call without deferred experts, except for the order of
      // additions.
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
      const auto actual = CallDeferring(**workers, tokens);
      ASSERT_TRUE(actual.ok()) << actual.status();
      EXPECT_EQ(*actual, *expected) << tokens << " tokens";
      EXPECT_TRUE(Call(**workers, tokens).ok()) << "calls without deferred experts still work";
    }
  }
}

TEST_F(ExpertFanOutTest, TheEngineContinuesWhileDeferredExpertsAreComputed) {
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto service = Serve(0, 1, Path("q"));
    Formula& formula = *formulas_.back();
    const auto workers = Connect({service->address()}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    const auto expected = CallDeferring(**workers, 2, kDeferredHangs);
    formula.Hang();
    ASSERT_TRUE(StartDeferring(**workers, 2, kDeferredHangs).ok());
    std::vector<float> both(2 * hidden_.size(), 0.5f);
    // Finish returns although the deferred part is not computed.
    ASSERT_TRUE((*workers)->Finish(absl::MakeSpan(both).subspan(0, hidden_.size())).ok());
    formula.Resume();
    ASSERT_TRUE((*workers)->FinishDeferred(absl::MakeSpan(both).subspan(hidden_.size())).ok());
    EXPECT_EQ(both, *expected);
  }
}

// The workers still compute the deferred experts of an abandoned step, but the next call gets its own sums.
TEST_F(ExpertFanOutTest, DeferredRepliesOfAnAbandonedStepAreDropped) {
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto service = Serve(0, 1, Path("r"));
    const auto workers = Connect({service->address()}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    const auto expected = CallDeferring(**workers, 3, /*layer=*/2);
    const auto plain = Call(**workers, 2);
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(StartDeferring(**workers, 5 + i).ok());
      std::vector<float> sums(hidden_.size());
      ASSERT_TRUE((*workers)->Finish(absl::MakeSpan(sums)).ok());
      if (i == 1) {
        EXPECT_EQ(*Call(**workers, 2), *plain);
      } else {
        EXPECT_EQ(*CallDeferring(**workers, 3, /*layer=*/2), *expected);
      }
    }
    EXPECT_EQ(metrics_.With(CounterId::kWorkerLost, {service->address()}).Value(), 0)
        << "no session was lost";
  }
}

// One of two workers dies while deferred experts are outstanding: the step is lost, and the other worker's
// reply to it is not used for another call.
TEST_F(ExpertFanOutTest, AWorkerLostWithDeferredExpertsLosesOnlyTheStep) {
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto stays = Serve(0, 2, Path("s"));
    auto dies = Serve(1, 2, Path("t"));
    const auto workers = Connect({stays->address(), dies->address()}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    const auto expected = CallDeferring(**workers, 2, kDeferredHangs);
    for (const bool before_finish : {false, true}) {
      Formula& dying = *formulas_.back();
      dying.Hang();
      ASSERT_TRUE(StartDeferring(**workers, 2, kDeferredHangs).ok());
      std::vector<float> sums(hidden_.size());
      if (!before_finish) {
        ASSERT_TRUE((*workers)->Finish(absl::MakeSpan(sums)).ok());
      }
      std::thread killer([&] { dies.reset(); });
      dying.Resume();
      killer.join();
      if (before_finish)
        (void)(*workers)->Finish(absl::MakeSpan(sums));  // the reply may have arrived in time
      dies = Serve(1, 2, Path("t"));
      ASSERT_TRUE((*workers)->AwaitReady(kPatienceMs).ok());
      const auto again = CallDeferring(**workers, 2, kDeferredHangs);
      if (again.ok()) {
        EXPECT_EQ(*again, *expected);
      } else {  // the worker's death was noticed only now
        EXPECT_TRUE(absl::IsUnavailable(again.status())) << again.status();
        ASSERT_TRUE((*workers)->AwaitReady(kPatienceMs).ok());
        EXPECT_EQ(*CallDeferring(**workers, 2, kDeferredHangs), *expected);
      }
    }
  }
}

TEST_F(ExpertFanOutTest, AnErrorOfADeferringCallIsReportedAndTheSessionRecovers) {
  const auto service = Serve(0, 1, Path("u"));
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto workers = Connect({service->address()}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    EXPECT_THAT(CallDeferring(**workers, 1, /*layer=*/99).status().ToString(), HasSubstr("layer 99"));
    ASSERT_TRUE((*workers)->AwaitReady(kPatienceMs).ok());
    EXPECT_TRUE(CallDeferring(**workers, 1).ok());
  }
}

TEST_F(ExpertFanOutTest, AnExecutorsErrorIsReportedAndTheSessionRecovers) {
  const auto service = Serve(0, 1, Path("b"));
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto workers = Connect({service->address()}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    EXPECT_THAT(Call(**workers, 1, /*layer=*/99).status().ToString(), HasSubstr("layer 99"));
    ASSERT_TRUE((*workers)->AwaitReady(kPatienceMs).ok());
    EXPECT_TRUE(Call(**workers, 1).ok());
  }
}

TEST_F(ExpertFanOutTest, ActivityDistinguishesCallsFromTheTimeBetweenThem) {
  const auto service = Serve(0, 1, Path("r"));
  const auto workers = Connect({service->address()}, DataPath::kAuto);
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_FALSE((*workers)->Activity().in_call);
  while ((*workers)->Activity().seconds < 0.01) std::this_thread::yield();
  ASSERT_TRUE(StartDeferring(**workers, 2).ok());
  EXPECT_TRUE((*workers)->Activity().in_call);
  std::vector<float> both(2 * hidden_.size());
  ASSERT_TRUE((*workers)->Finish(absl::MakeSpan(both).subspan(0, hidden_.size())).ok());
  EXPECT_FALSE((*workers)->Activity().in_call)
      << "the engine does not wait while deferred experts are computed";
  ASSERT_TRUE((*workers)->FinishDeferred(absl::MakeSpan(both).subspan(hidden_.size())).ok());
  const CallActivity after = (*workers)->Activity();
  EXPECT_FALSE(after.in_call);
  while ((*workers)->Activity().seconds <= after.seconds) std::this_thread::yield();
}

TEST_F(ExpertFanOutTest, TwoCoordinatorsShareAWorker) {
  const auto service = Serve(0, 1, Path("g"));
  const auto first = Connect({service->address()}, DataPath::kSharedMemory);
  const auto second = Connect({service->address()}, DataPath::kSharedMemory);
  ASSERT_TRUE(first.ok() && second.ok());
  for (int i = 0; i < 50; ++i) EXPECT_EQ(*Call(**first, 1 + i), *Call(**second, 1 + i));
  EXPECT_EQ(service->Stats().sessions, 2);
}

// Both processes are running, but the worker does not answer: each data path ends the wait in its own way.
TEST_F(ExpertFanOutTest, ACallThatIsNotAnsweredEndsAtItsDeadline) {
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    const auto service = Serve(0, 1, Path("v"));
    formulas_.back()->Hang();
    const auto workers =
        Connect({service->address()}, path, /*start_deadline_ms=*/kPatienceMs, /*call_deadline_ms=*/200);
    ASSERT_TRUE(workers.ok()) << workers.status();
    prometheus::Counter& lost = metrics_.With(CounterId::kWorkerLost, {service->address()});
    const double lost_before = lost.Value();
    const absl::Status late = Call(**workers, 1, kHangs).status();
    EXPECT_TRUE(absl::IsUnavailable(late)) << late;
    EXPECT_FALSE((*workers)->Activity().in_call);
    EXPECT_EQ(lost.Value(), lost_before + 1);
    formulas_.back()->Resume();
    // On a busy machine a call that is computed may be late, too.
    while (!(*workers)->AwaitReady(kPatienceMs).ok() || !Call(**workers, 1, kHangs).ok()) {
    }
  }
}

// What a GPU does with an endpoint: plain stores into the mailbox, then a wait for the reply's counter.
absl::StatusOr<std::vector<float>> CallAsDevice(const MailboxEndpoint& endpoint, int number, uint64_t call_id,
                                                LayerCallView call, const std::atomic<uint32_t>& release) {
  call.instance = endpoint.instance;
  *endpoint.request_length = EncodeRequest(call_id, call, endpoint.request);
  std::atomic_ref(*endpoint.request_published)
      .store(endpoint.requests + number + 1, std::memory_order_release);
  const std::atomic_ref replies(*const_cast<uint32_t*>(endpoint.reply_published));
  while (replies.load(std::memory_order_acquire) != endpoint.replies + number + 1) {
    if (release.load() != 0) return absl::UnavailableError("released");
  }
  const size_t bytes = ReplyBytes(call.tokens, Formula::kHidden);
  const auto partial = DecodeReply(endpoint.reply.subspan(0, bytes), call_id, call.hidden.size());
  if (!partial.ok()) return partial.status();
  return std::vector<float>(partial->begin(), partial->end());
}

TEST_F(ExpertFanOutTest, ADeviceMakesCallsAndThenTheHostContinues) {
  Formula zero(0);
  const auto service = Serve(0, 1, Path("m"));
  const auto workers = Connect({service->address()}, DataPath::kSharedMemory);
  ASSERT_TRUE(workers.ok()) << workers.status();
  ASSERT_TRUE(Call(**workers, 2).ok());
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
    const auto direct = (*workers)->BeginDirect(&release);
    ASSERT_TRUE(direct.ok()) << direct.status();
    EXPECT_EQ(release.load(), 0u);
    for (int i = 0; i < 4; ++i) {
      // Longer than a reader spins by itself: a reader that is held awake must not have gone to sleep.
      if (i == 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
      const auto sums = CallAsDevice(direct->endpoints[0], i, direct->first_call_id + i, view, release);
      ASSERT_TRUE(sums.ok()) << sums.status();
      EXPECT_EQ(*sums, expected);
    }
    ASSERT_TRUE((*workers)->EndDirect(4, 0, absl::OkStatus()).ok());
    EXPECT_EQ(Call(**workers, 2), Call(**workers, 2)) << "the host's calls must follow the device's calls";
  }
}

TEST_F(ExpertFanOutTest, ADeviceIsReleasedWhenItsWorkerDies) {
  auto service = Serve(0, 1, Path("n"));
  const auto workers = Connect({service->address()}, DataPath::kSharedMemory);
  ASSERT_TRUE(workers.ok()) << workers.status();
  std::atomic<uint32_t> release{0};
  ASSERT_TRUE((*workers)->BeginDirect(&release).ok());
  service.reset();
  while (release.load() == 0) std::this_thread::yield();
  const absl::Status ended = (*workers)->EndDirect(0, 0, absl::UnavailableError("the device waited in vain"));
  EXPECT_TRUE(absl::IsUnavailable(ended)) << ended;
  service = Serve(0, 1, Path("n"));
  ASSERT_TRUE((*workers)->AwaitReady(kPatienceMs).ok());
  EXPECT_TRUE(Call(**workers, 2).ok());
}

TEST_F(ExpertFanOutTest, ADeviceIsReleasedAtTheDeadline) {
  const auto service = Serve(0, 1, Path("w"));
  const auto workers = Connect({service->address()}, DataPath::kSharedMemory,
                               /*start_deadline_ms=*/kPatienceMs, /*call_deadline_ms=*/200);
  ASSERT_TRUE(workers.ok()) << workers.status();
  for (int step = 0; step < 2; ++step) {
    ASSERT_TRUE((*workers)->AwaitReady(kPatienceMs).ok());
    std::atomic<uint32_t> release{0};
    ASSERT_TRUE((*workers)->BeginDirect(&release).ok());
    while (release.load() == 0) std::this_thread::yield();
    EXPECT_TRUE((*workers)->Ready()) << "the worker is still running";
    EXPECT_TRUE(
        absl::IsUnavailable((*workers)->EndDirect(0, 0, absl::UnavailableError("it waited in vain"))));
  }
}

TEST_F(ExpertFanOutTest, DirectCallsAreNotPossibleOverAStream) {
  const auto service = Serve(0, 1, Path("o"));
  const auto workers = Connect({service->address()}, DataPath::kGrpc);
  ASSERT_TRUE(workers.ok()) << workers.status();
  std::atomic<uint32_t> release{0};
  EXPECT_TRUE(absl::IsUnimplemented((*workers)->BeginDirect(&release).status()));
  EXPECT_TRUE(Call(**workers, 2).ok());
}

}  // namespace
}  // namespace numoe::execution
