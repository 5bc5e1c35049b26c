// The start and the end of a worker: what it opens, what it releases, and that it can be started again.
#include "expert_worker/startup/worker_stack.h"

#include <filesystem>

#include "common/base/signals.h"
#include "expert_worker/service/health_probe.h"
#include "gmock/gmock.h"
#include "tests/support/awaited_signal.h"
#include "tests/support/safetensors_writer.h"
#include "tests/unit/expert_worker/startup/worker_command.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

class WorkerStackTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { BlockSignals(); }  // before any thread starts

  WorkerOptions Options(std::vector<std::string> words = {}) {
    words.insert(words.begin(),
                 {"--model", "tests/golden/data/tiny-chat", "--metrics-port", "0", "--threads", "2",
                  "--listen", "unix:" + Path("worker.sock"), "--memory-reservations", Path("reservations")});
    return OptionsOf(std::move(words));
  }
  std::string Path(const std::string& name) const { return (folder_.path() / name).string(); }
  size_t Reservations() const {
    size_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(Path("reservations")))
      count += entry.is_regular_file() ? 1 : 0;
    return count;
  }

  const TemporaryFolder folder_;
};

TEST_F(WorkerStackTest, AWorkerServesUntilItIsDestroyedAndLeavesNothingBehind) {
  for (int start = 0; start < 2; ++start) {
    auto worker = WorkerStack::Create(Options());
    ASSERT_TRUE(worker.ok()) << worker.status();
    EXPECT_TRUE(HealthProbe((*worker)->address()).Ask("", std::chrono::seconds(60)).ok());
    EXPECT_GT((*worker)->metrics_port(), 0);
    EXPECT_EQ(Reservations(), 1u);
    worker->reset();
    EXPECT_FALSE(std::filesystem::exists(Path("worker.sock")));
    EXPECT_EQ(Reservations(), 0u);
  }
}

TEST_F(WorkerStackTest, ASignalEndsAWorker) {
  const auto worker = WorkerStack::Create(Options());
  ASSERT_TRUE(worker.ok()) << worker.status();
  const AwaitedSignal signal;
  (*worker)->Serve();
  const absl::Status health = HealthProbe((*worker)->address()).Ask("", std::chrono::seconds(60));
  EXPECT_TRUE(absl::IsUnavailable(health)) << health;
}

TEST_F(WorkerStackTest, AFailedStartReleasesWhatItHasOpened) {
  const auto failed = WorkerStack::Create(Options({"--health-listen", "127.0.0.1:0", "--worker-index", "5"}));
  EXPECT_THAT(std::string(failed.status().message()), HasSubstr("--worker-index=5"));
  WorkerOptions nowhere = Options();
  nowhere.model = "/nonexistent";
  const auto unread = WorkerStack::Create(nowhere);
  EXPECT_THAT(std::string(unread.status().message()), HasSubstr("/nonexistent"));
  const auto worker = WorkerStack::Create(Options());
  EXPECT_TRUE(worker.ok()) << worker.status();
}

}  // namespace
}  // namespace numoe::worker
