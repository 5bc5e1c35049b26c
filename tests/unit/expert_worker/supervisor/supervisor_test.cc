// Supervises shell scripts instead of workers, and health ports that the test serves for them.
#include "expert_worker/supervisor/supervisor.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <functional>
#include <thread>

#include "common/base/signals.h"
#include "expert_worker/service/health_probe.h"
#include "expert_worker/service/health_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

class SupervisorTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {  // before any thread starts
    BlockSignals();
    BlockChildSignals();
  }

  // `script` sees the test's folder as $0's neighbour: it runs there.
  absl::Status Run(int workers, const std::string& script, HealthServer* health = nullptr,
                   milliseconds drain = milliseconds(20'000)) {
    for (int i = 0; i < workers; ++i) {
      plan_.workers.push_back({.index = i,
                               .nodes = {0},
                               .cpus = {sched_getcpu()},
                               .listen = "unix:" + Path(std::to_string(i) + ".sock"),
                               .metrics_port = 0});
    }
    plan_.worker_count = workers;
    // WorkerArguments' own follow: $0 and up.
    const SupervisorOptions options{
        .program = "/bin/sh",
        .arguments = {"-c", "cd '" + folder_.path().string() + "'; " + script},
        .restarts = {.starts_max = 3, .delay_min = milliseconds(10), .delay_max = milliseconds(50)},
        .hangs = hangs_,
        .drain_max = drain};
    return Supervise(plan_, options, health);
  }
  std::string Path(const std::string& name) const { return folder_.path() / name; }
  std::vector<std::string> Lines(const std::string& name) const {
    std::ifstream file(Path(name));
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  // Waits until `done`. A test that waits in vain fails, however slow the machine is.
  static void Await(const char* what, const std::function<bool()>& done) {
    for (int i = 0; i < 3'000; ++i) {
      if (done()) return;
      std::this_thread::sleep_for(milliseconds(10));
    }
    ADD_FAILURE() << "not within 30 s: " << what;
  }
  // Does `work` while Run runs, then ends it.
  std::thread Beside(std::function<void()> work) {
    return std::thread([work = std::move(work)] {
      work();
      kill(getpid(), SIGTERM);
    });
  }

  TemporaryFolder folder_;
  FleetPlan plan_;
  HangLimits hangs_;
};

constexpr const char* kServe =
    "echo $$ >> started; trap 'echo $1 >> drained; exit 0' TERM; while :; do sleep 0.02; done";

TEST_F(SupervisorTest, AWorkerThatCannotStartEndsItWithItsReport) {
  const absl::Status status =
      Run(1, "echo x >> tries; printf 'no such model' > /proc/self/fd/$NUMOE_SUPERVISOR_PIPE; exit 2");
  EXPECT_EQ(status.message(), "worker 0 could not be started in 3 tries: exit code 2: no such model");
  EXPECT_EQ(Lines("tries").size(), 3u);
}

TEST_F(SupervisorTest, AWorkerThatFailedPermanentlyIsNotStartedAgain) {
  const absl::Status status = Run(
      1,
      "echo x >> tries; printf 'final\\n64 over 4 workers' > /proc/self/fd/$NUMOE_SUPERVISOR_PIPE; exit 2");
  EXPECT_EQ(status.message(), "worker 0 cannot be started: exit code 2: 64 over 4 workers");
  EXPECT_EQ(Lines("tries").size(), 1u);
}

// It served, failed to start for a while (because of memory that another process took, or a CPU that is
// offline), and starts again later.
TEST_F(SupervisorTest, APermanentFailureAfterServingEndsNoOtherWorker) {
  const auto worker = HealthServer::Start("unix:" + Path("0.sock"));
  const auto health = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(worker.ok() && health.ok());
  (*worker)->Set("", true);
  const HealthProbe probe("127.0.0.1:" + std::to_string((*health)->port()));
  std::thread end = Beside([&] {
    Await("it is ready", [&] { return probe.Ask("", milliseconds(2'000)).ok(); });
    (*worker)->Set("", false);
    std::ofstream(Path("full")) << "x";
    kill(std::stoi(Lines("started").back()), SIGKILL);
    Await("it was refused more often than a new one may be", [&] { return Lines("tries").size() > 5; });
    std::filesystem::remove(Path("full"));
    Await("it comes back", [&] { return Lines("started").size() == 2; });
  });
  const std::string refuse =
      "[ -e full ] && { echo x >> tries; printf 'final\\nno room' > /proc/self/fd/$NUMOE_SUPERVISOR_PIPE; "
      "exit 2; "
      "}; ";
  EXPECT_TRUE(Run(1, refuse + kServe, health->get()).ok());
  end.join();
}

TEST_F(SupervisorTest, TheOthersDrainWhenOneCannotStart) {
  const absl::Status status = Run(
      2,
      std::string("[ $1 = --worker-index=0 ] && { while [ ! -e started ]; do sleep 0.01; done; exit 3; }; ") +
          kServe);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("worker 0 could not be started in 3 tries: exit code 3"));
  EXPECT_THAT(Lines("drained"), ::testing::ElementsAre("--worker-index=1"));
}

TEST_F(SupervisorTest, SigtermIsForwardedAndTheWorkersAreWaitedFor) {
  std::thread end = Beside([&] { Await("both run", [&] { return Lines("started").size() == 2; }); });
  EXPECT_TRUE(Run(2, kServe).ok());
  end.join();
  EXPECT_EQ(Lines("drained").size(), 2u);
}

TEST_F(SupervisorTest, AWorkerThatDoesNotEndInTimeIsKilled) {
  std::thread end = Beside([&] { Await("it runs", [&] { return Lines("started").size() == 1; }); });
  EXPECT_TRUE(
      Run(1, "trap '' TERM; echo x >> started; while :; do sleep 0.02; done", nullptr, milliseconds(100))
          .ok());
  end.join();
}

TEST_F(SupervisorTest, OrphansAreReaped) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // like process 1
  std::thread end = Beside([&] {
    Await("the orphan has ended", [&] {
      const std::vector<std::string> orphan = Lines("orphan");
      return !orphan.empty() && kill(std::stoi(orphan[0]), 0) != 0;
    });
  });
  EXPECT_TRUE(
      Run(1, std::string("(sh -c 'echo $$ >> orphan.tmp; mv orphan.tmp orphan; sleep 0.1' &); ") + kServe)
          .ok());
  end.join();
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST_F(SupervisorTest, ReadyIsWhatAllWorkersSayAndADeadOneComesBack) {
  const auto health = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(health.ok()) << health.status();
  std::vector<std::unique_ptr<HealthServer>> workers;
  for (int i = 0; i < 2; ++i) {
    auto server = HealthServer::Start("unix:" + Path(std::to_string(i) + ".sock"));
    ASSERT_TRUE(server.ok()) << server.status();
    workers.push_back(*std::move(server));
  }
  const HealthProbe probe("127.0.0.1:" + std::to_string((*health)->port()));
  const auto serves = [&](const std::string& service) {
    return probe.Ask(service, milliseconds(2'000)).ok();
  };
  std::thread end = Beside([&] {
    Await("live", [&] { return serves("live"); });
    workers[0]->Set("", true);
    Await("the first is ready", [&] { return serves("worker/0"); });
    EXPECT_FALSE(serves(""));
    workers[1]->Set("", true);
    Await("all are ready", [&] { return serves(""); });
    const std::vector<std::string> before = Lines("started");
    kill(std::stoi(before.back()), SIGKILL);
    Await("it comes back", [&] { return Lines("started").size() == before.size() + 1; });
    Await("all are ready again", [&] { return serves(""); });
    workers[0]->Set("", false);
    Await("not all are ready", [&] { return !serves(""); });
    EXPECT_FALSE(serves("worker/0"));
    EXPECT_TRUE(serves("worker/1"));
    EXPECT_TRUE(serves("live"));
  });
  EXPECT_TRUE(Run(2, kServe, health->get()).ok());
  end.join();
  EXPECT_FALSE(serves(""));
}

TEST_F(SupervisorTest, AStoppedWorkerThatHasServedIsKilledAndComesBack) {
  hangs_ = {.serving = milliseconds(300), .check_interval = milliseconds(50)};
  const auto worker = HealthServer::Start("unix:" + Path("0.sock"));
  const auto health = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(worker.ok() && health.ok());
  const HealthProbe probe("127.0.0.1:" + std::to_string((*health)->port()));
  const auto serves = [&] { return probe.Ask("", milliseconds(2'000)).ok(); };
  std::thread end = Beside([&] {
    Await("it runs", [&] { return Lines("started").size() == 1; });
    (*worker)->Set("", true);
    Await("it is ready", serves);
    kill(std::stoi(Lines("started")[0]), SIGSTOP);
    (*worker)->Set("", false);
    Await("another process", [&] { return Lines("started").size() > 1; });
    (*worker)->Set("", true);
    Await("it is ready again", serves);
  });
  EXPECT_TRUE(Run(1, std::string("echo $NUMOE_SUPERVISOR_HUNG >> hung; ") + kServe, health->get()).ok());
  end.join();
  EXPECT_EQ(Lines("hung")[0], "0");
  EXPECT_EQ(Lines("hung")[1], "1");
  EXPECT_NE(kill(std::stoi(Lines("started")[0]), 0), 0);
}

TEST_F(SupervisorTest, ALoadThatMovesIsNeverKilledAndOneThatStopsIs) {
  hangs_ = {.loading = milliseconds(2'500), .check_interval = milliseconds(50)};
  // Twice as long as a silent worker may take; then it stops itself.
  const std::string load =
      "if [ ! -e loaded ]; then i=0; while [ $i -lt 50 ]; do i=$((i + 1)); sleep 0.1; "
      "echo \"progress $i\" > /proc/self/fd/$NUMOE_SUPERVISOR_PIPE; done; echo $$ > loaded; kill -STOP $$; "
      "fi; ";
  std::thread end =
      Beside([&] { Await("it is started again", [&] { return Lines("started").size() == 1; }); });
  EXPECT_TRUE(Run(1, load + kServe).ok());
  end.join();
  ASSERT_EQ(Lines("loaded").size(), 1u) << "it was killed while it moved";
  EXPECT_NE(Lines("loaded")[0], Lines("started")[0]);
}

TEST_F(SupervisorTest, OneThatNeverMovesEndsItWithTheReason) {
  hangs_ = {.loading = milliseconds(200), .check_interval = milliseconds(20)};
  const absl::Status status = Run(1, "echo $NUMOE_SUPERVISOR_HUNG >> hung; kill -STOP $$");
  EXPECT_EQ(status.message(), "worker 0 could not be started in 3 tries: signal 9 (Killed), because it hung");
  EXPECT_THAT(Lines("hung"), ::testing::ElementsAre("0", "1", "2"));
}

}  // namespace
}  // namespace numoe::worker
