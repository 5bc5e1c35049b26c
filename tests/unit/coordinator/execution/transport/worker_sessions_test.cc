// Sessions with real worker services: a lost worker is noticed and comes back; one that does not fit is
// refused, at the start and whenever it connects, with an error that names it; and the workers' counts are
// merged.
#include "coordinator/execution/transport/worker_sessions.h"

#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/transport/formula_workers.h"
#include "tests/unit/coordinator/execution/transport/lying_worker.h"

namespace numoe::execution {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr int64_t kSessionsPatienceMs = 120'000;

class WorkerSessionsTest : public FormulaWorkers {};

TEST_F(WorkerSessionsTest, ALostWorkerIsNoticedAndComesBack) {
  const std::string address = Path("c");
  auto service = Serve(0, 1, address);
  for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
    if (service == nullptr) service = Serve(0, 1, address);
    const auto workers = Connect({address}, path);
    ASSERT_TRUE(workers.ok()) << workers.status();
    const auto before = Call(**workers, 2);
    service.reset();
    absl::StatusOr<std::vector<float>> during = Call(**workers, 2);
    EXPECT_EQ(during.status().code(), absl::StatusCode::kUnavailable) << during.status();
    EXPECT_FALSE((*workers)->Ready());
    EXPECT_THAT((*workers)->AwaitReady(30).ToString(), HasSubstr(address));
    service = Serve(0, 1, address);
    ASSERT_TRUE((*workers)->AwaitReady(kPatienceMs).ok());
    EXPECT_EQ(*Call(**workers, 2), *before);
  }
}

TEST_F(WorkerSessionsTest, ErrorsNameTheWorkersThatDoNotFit) {
  const auto zero = Serve(0, 2, Path("d"));
  const auto twin = Serve(0, 2, Path("e"));
  // Either of them may be connected first.
  EXPECT_THAT(Connect({zero->address(), twin->address()}, DataPath::kAuto).status().ToString(),
              AnyOf(HasSubstr("it is slice 0 of 2, which worker " + zero->address() + " serves already"),
                    HasSubstr("it is slice 0 of 2, which worker " + twin->address() + " serves already")));
  EXPECT_THAT(Connect({zero->address()}, DataPath::kAuto).status().ToString(), HasSubstr("--worker-count=1"));
  const auto other = Serve(0, 1, Path("f"), /*fingerprint=*/7);
  EXPECT_THAT(Connect({other->address()}, DataPath::kAuto).status().ToString(), HasSubstr("fingerprint"));
  EXPECT_THAT(Connect({"unix:/nonexistent/numoe"}, DataPath::kAuto, 300).status().ToString(),
              HasSubstr("/nonexistent/numoe"));
}

TEST_F(WorkerSessionsTest, RowsOfExpertsAreCountedOnce) {
  for (const bool slice_by_expert : {false, true}) {
    worker::ExpertStatistics first(2, kExperts), second(2, kExperts);
    const auto count = [](worker::ExpertStatistics& statistics, ExpertId expert, int rows) {
      const worker::ExpertGroup group{.expert = expert, .row_begin = 0, .rows = rows};
      statistics.Count(/*layer=*/1, rows, {&group, 1}, std::chrono::microseconds(1));
    };
    count(first, 2, 5);
    count(second, slice_by_expert ? 3 : 2, 5);
    const auto zero = Serve(0, 2, Path("i"), kFingerprint, &first, slice_by_expert);
    const auto one = Serve(1, 2, "127.0.0.1:0", kFingerprint, &second, slice_by_expert);
    std::vector<uint64_t> expected(2 * kExperts);
    expected[kExperts + 2] = 5;
    if (slice_by_expert) expected[kExperts + 3] = 5;
    for (const DataPath path : {DataPath::kSharedMemory, DataPath::kGrpc}) {
      const auto workers = Connect({zero->address(), one->address()}, path);
      ASSERT_TRUE(workers.ok()) << workers.status();
      const auto rows = (*workers)->sessions().CountedRows();
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(rows->layers, 2);
      EXPECT_EQ(rows->experts, kExperts);
      EXPECT_EQ(rows->rows, expected);
    }
  }
}

TEST_F(WorkerSessionsTest, RowsOfExpertsComeFromTheWorkersThatAnswer) {
  worker::ExpertStatistics statistics(1, kExperts);
  const auto silent = Serve(0, 2, Path("j"));  // has no statistics
  auto counting = Serve(1, 2, Path("k"), kFingerprint, &statistics);
  const auto workers = Connect({silent->address(), counting->address()}, DataPath::kAuto);
  ASSERT_TRUE(workers.ok()) << workers.status();
  const auto rows = (*workers)->sessions().CountedRows();
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->rows.size(), static_cast<size_t>(kExperts));
  counting.reset();
  EXPECT_THAT((*workers)->sessions().CountedRows().status().ToString(),
              HasSubstr("no worker has answered with its statistics"));
}

TEST_F(WorkerSessionsTest, StatisticsOfAnotherShapeAreRefused) {
  worker::ExpertStatistics statistics(1, kExperts + 1);
  const auto service = Serve(0, 1, Path("l"), kFingerprint, &statistics);
  const auto workers = Connect({service->address()}, DataPath::kAuto);
  ASSERT_TRUE(workers.ok()) << workers.status();
  EXPECT_THAT((*workers)->sessions().CountedRows().status().ToString(),
              HasSubstr("1 layers of 9 experts, expected 8"));
}

TEST_F(WorkerSessionsTest, TheStartReportsAWorkersLoadingProgressAndUsesItWhenItServes) {
  Formula formula(0);
  worker::LoadProgress progress;
  const worker::WorkerServiceOptions options{.listen = Path("o"),
                                             .model_fingerprint = kFingerprint,
                                             .hidden_size = kHidden,
                                             .num_experts = kExperts,
                                             .experts_per_token = 2,
                                             .description = "formula"};
  const auto service = worker::WorkerService::StartLoading(options, progress);
  ASSERT_TRUE(service.ok()) << service.status();
  progress.Begin(uint64_t{3} << 30);
  progress.Add(uint64_t{1} << 30, /*direct=*/false);
  const SessionOptions sessions{
      .addresses = {(*service)->address()},
      .link = {.model_fingerprint = kFingerprint, .hidden_size = kHidden, .num_experts = kExperts},
      .start_deadline_ms = 2'000};
  EXPECT_THAT(WorkerSessions::Connect(sessions, metrics_).status().ToString(),
              HasSubstr("there was no progress for 2000 ms: worker " + options.listen +
                        " (it loads its weights: 1.0 of 3.0 GiB)"));
  SessionOptions patient = sessions;
  patient.start_deadline_ms = kSessionsPatienceMs;
  std::atomic<bool> heard = false, returned = false;
  patient.waiting_for = [&](const std::string& missing) {
    if (missing.find("1.0 of 3.0 GiB") != std::string::npos) heard = true;
  };
  std::thread load([&] {
    while (!heard && !returned) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE((*service)->Serve(formula, options).ok());
  });
  const auto connected = WorkerSessions::Connect(patient, metrics_);
  returned = true;
  load.join();
  ASSERT_TRUE(connected.ok()) << connected.status();
  EXPECT_TRUE((*connected)->Ready());
}

TEST_F(WorkerSessionsTest, ASocketInUseIsNotTakenOver) {
  const auto service = Serve(0, 1, Path("h"));
  Formula formula(0);
  EXPECT_THAT(worker::WorkerService::Start(
                  formula, {.listen = service->address(), .hidden_size = kHidden, .num_experts = kExperts})
                  .status()
                  .ToString(),
              HasSubstr("another process"));
}

// Returns its input multiplied by the index of its slice plus 1.
class Sums final : public LayerExecutor {
 public:
  explicit Sums(int slice) : factor_(static_cast<float>(slice + 1)) {}
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    for (size_t i = 0; i < out.size(); ++i) out[i] = factor_ * call.hidden[i];
    return absl::OkStatus();
  }

 private:
  const float factor_;
};

struct Slice {
  int index = 0;
  int count = 2;
  bool by_expert = false;
  std::string numeric_formats = "--format=bf16";
};

class SumWorkersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 2; ++i) Serve(i, {.index = i});
    auto workers = ExpertFanOut::Connect({.addresses = {Address(0), Address(1)},
                                          .link = {.hidden_size = 4,
                                                   .num_experts = 2,
                                                   .call_deadline_ms = kSessionsPatienceMs,
                                                   .heartbeat_deadline_ms = kSessionsPatienceMs},
                                          .start_deadline_ms = kSessionsPatienceMs},
                                         metrics_);
    ASSERT_TRUE(workers.ok()) << workers.status();
    workers_ = *std::move(workers);
  }
  static std::string Address(int place) {
    return "unix:" + ::testing::TempDir() + "/status-" + std::to_string(getpid()) + "-" +
           std::to_string(place);
  }
  // Replaces the service at this address.
  void Serve(int place, const Slice& slice) {
    services_[place].reset();
    executors_.push_back(std::make_unique<Sums>(slice.index));
    auto service =
        worker::WorkerService::Start(*executors_.back(), {.listen = Address(place),
                                                          .slice_by_expert = slice.by_expert,
                                                          .worker_index = slice.index,
                                                          .worker_count = slice.count,
                                                          .hidden_size = 4,
                                                          .num_experts = 2,
                                                          .experts_per_token = 1,
                                                          .description = "sums",
                                                          .numeric_formats = slice.numeric_formats});
    ASSERT_TRUE(service.ok()) << service.status();
    services_[place] = *std::move(service);
  }
  absl::StatusOr<float> Call() {
    const std::vector<float> hidden(4, 1.0f), weights(1, 1.0f);
    const std::vector<ExpertId> experts(1);
    std::vector<float> out(4);
    absl::Status status = workers_->Start({.layer = 0,
                                           .tokens = 1,
                                           .experts_per_token = 1,
                                           .hidden = hidden,
                                           .experts = experts,
                                           .weights = weights});
    if (status.ok()) status = workers_->Finish(absl::MakeSpan(out));
    if (!status.ok()) return status;
    return out[0];
  }
  // Waits until worker 0 is refused with these words, and returns its error.
  std::string Refused(const std::string& words = "expected") const {
    while (true) {
      const WorkerStatus worker = workers_->sessions().Workers()[0];
      if (!worker.up && worker.error.find(words) != std::string::npos) return worker.error;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  Metrics metrics_{MetricOwner::kCoordinator};
  std::vector<std::unique_ptr<Sums>> executors_;
  std::unique_ptr<worker::WorkerService> services_[2];
  std::unique_ptr<ExpertFanOut> workers_;
};

// During an answer no worker with other numeric formats is accepted. Between answers all workers may change
// them, and the change is reported.
TEST_F(SumWorkersTest, OtherNumericFormatsAreAcceptedBetweenAnswersAndReported) {
  ASSERT_EQ(*Call(), 3.0f);
  EXPECT_FALSE(workers_->ConsumeFormatChange());
  const Slice other{.index = 0, .numeric_formats = "--format=int8"};
  Serve(0, other);
  EXPECT_THAT(Refused(), HasSubstr("expected --format=bf16"));
  workers_->OnIdle();
  Refused("expected --format=bf16 as worker " + Address(1) + " does or did");  // worker 1 is up
  Serve(1, {.index = 1, .numeric_formats = "--format=int8"});
  ASSERT_TRUE(workers_->AwaitReady(kSessionsPatienceMs).ok());
  EXPECT_TRUE(absl::IsUnavailable(Call().status())) << "the change was not consumed yet";
  EXPECT_TRUE(workers_->ConsumeFormatChange());
  EXPECT_FALSE(workers_->ConsumeFormatChange());
  EXPECT_EQ(*Call(), 3.0f);
  Serve(0, {.index = 0});
  EXPECT_THAT(Refused(), HasSubstr("expected --format=int8"));
}

// A coordinator once crashed because of the first of these slices, and answered wrong text because of the
// second.
TEST_F(SumWorkersTest, AWorkerThatComesBackAsAnotherSliceIsNotUsedUntilItIsRight) {
  ASSERT_EQ(*Call(), 3.0f);
  const std::pair<Slice, const char*> wrong[] = {
      {{.index = 1}, "it is slice 1 of 2, which worker"},
      {{.index = 0, .by_expert = true}, "--slice=expert, expected --slice=intermediate"},
      {{.index = 3, .count = 4}, "start all of them with --worker-count=2"},
      {{.index = 0, .count = 1}, "start all of them with --worker-count=2"}};
  for (const auto& [slice, words] : wrong) {
    Serve(0, slice);
    EXPECT_THAT(Refused(), HasSubstr(words));
    EXPECT_FALSE(workers_->Ready());
    const absl::Status call = Call().status();
    EXPECT_TRUE(absl::IsUnavailable(call)) << call;
    EXPECT_THAT(workers_->AwaitReady(20).ToString(), AllOf(HasSubstr(Address(0)), HasSubstr(words)));
    std::atomic<uint32_t> release{0};
    EXPECT_TRUE(absl::IsUnavailable(workers_->BeginDirect(&release).status()));
    Serve(0, {.index = 0});
    ASSERT_TRUE(workers_->AwaitReady(kSessionsPatienceMs).ok());
    EXPECT_EQ(*Call(), 3.0f);
  }
}

// As in the middle of an upgrade: a worker with another protocol is refused, and one with the same is
// accepted.
TEST_F(SumWorkersTest, AWorkerThatComesBackWithAnotherProtocolIsNotUsed) {
  ASSERT_EQ(*Call(), 3.0f);
  for (const uint32_t protocol : {kProtocolVersion - 1, kProtocolVersion + 1}) {
    services_[0].reset();
    {
      LyingWorker other(v1::SLICE_MODE_INTERMEDIATE, 2, protocol);
      other.Listen(Address(0));
      EXPECT_THAT(Refused("its protocol version is " + std::to_string(protocol)),
                  HasSubstr("run the same release on both sides"));
      EXPECT_TRUE(absl::IsUnavailable(Call().status()));
    }
    Serve(0, {.index = 0});
    ASSERT_TRUE(workers_->AwaitReady(kSessionsPatienceMs).ok());
    EXPECT_EQ(*Call(), 3.0f);
  }
}

// The waits between eight attempts are 5, 10, 20, ... 320 ms.
TEST(WorkerSessionsStartTest, TheIntervalsOfAttemptsToConnectGrow) {
  LyingWorker liar(v1::SLICE_MODE_EXPERT);
  liar.unavailable = true;
  liar.Listen();
  const auto begun = std::chrono::steady_clock::now();
  std::thread connects([&] {
    Metrics metrics(MetricOwner::kCoordinator);
    (void)WorkerSessions::Connect({.addresses = {liar.address()},
                                   .link = {.data_path = DataPath::kGrpc, .hidden_size = 4, .num_experts = 2},
                                   .start_deadline_ms = kSessionsPatienceMs},
                                  metrics);
  });
  while (liar.handshakes < 8) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(5 * 127));
  liar.unavailable = false;
  connects.join();
}

}  // namespace
}  // namespace numoe::execution
