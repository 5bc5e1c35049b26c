#include "expert_worker/supervisor/supervisor.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "expert_worker/service/health_probe.h"
#include "expert_worker/service/health_server.h"
#include "expert_worker/supervisor/child_process.h"

namespace numoe::worker {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

constexpr Milliseconds kHealthEvery{250};
constexpr Milliseconds kHealthPatience{1'000};

// A worker that the supervisor keeps running. The health thread writes `ready_since` and `ready_last`; only
// the main thread writes the other members.
struct SupervisedWorker {
  SupervisedWorker(const FleetWorker& planned, const SupervisorOptions& options)
      : plan(planned),
        policy(options.restarts),
        probe(planned.health == "none" ? planned.listen : planned.health),
        hang(options.hangs) {}

  const FleetWorker& plan;
  RestartPolicy policy;
  HealthProbe probe;
  std::unique_ptr<ChildProcess> child;     // null if it does not run
  std::optional<Clock::time_point> start;  // when to start it; nullopt if it runs or is not restarted
  std::atomic<bool> running{false};
  std::atomic<int64_t> ready_since{0};  // steady_clock; 0 if this child has not been ready
  std::atomic<int64_t> ready_last{0};   // when its last answer SERVING came
  HangWatch hang;
  bool hung = false;  // the child hung and was killed
  Restarts restarts;
};

// Asks one worker after the other for its health, and sets the state of the health port.
class HealthWatch {
 public:
  HealthWatch(std::vector<std::unique_ptr<SupervisedWorker>>& workers, HealthServer* health)
      : workers_(workers), health_(health), was_ready_(workers.size(), false), thread_([this] { Watch(); }) {}
  ~HealthWatch() {
    stop_.store(true);
    thread_.join();
  }
  /// From now on the health port says "not ready", whatever the workers answer.
  void Drain() {
    draining_.store(true);
    SetReady(false);
  }

 private:
  // A check that began before Drain must not set the port to ready after it.
  void SetReady(bool ready) {
    const MutexLock lock(set_ready_);
    if (health_ != nullptr) health_->Set("", ready && !draining_.load());
  }

  void Watch() {
    pthread_setname_np(pthread_self(), "health");
    while (!stop_.load()) {
      bool all = true;
      for (size_t i = 0; i < workers_.size() && !stop_.load(); ++i) all &= Check(*workers_[i], i);
      if (all != all_ready_ && !draining_.load())
        LogInfo("{} of the {} workers are ready", all ? "all" : "not all", workers_.size());
      all_ready_ = all;
      SetReady(all);
      std::this_thread::sleep_for(kHealthEvery);
    }
  }

  bool Check(SupervisedWorker& worker, size_t i) {
    NUMOE_CHECK_LT(i, was_ready_.size());
    const bool ready = worker.running.load() && worker.probe.Ask("", kHealthPatience).ok();
    const int64_t now = Clock::now().time_since_epoch().count();
    if (ready) worker.ready_last.store(now);
    if (ready && worker.ready_since.load() == 0) worker.ready_since.store(now);
    if (ready != was_ready_[i] && !draining_.load())
      LogInfo("worker {} {}", worker.plan.index, ready ? "is ready" : "is not ready");
    was_ready_[i] = ready;
    if (health_ != nullptr) health_->Set(fmt::format("worker/{}", worker.plan.index), ready);
    return ready;
  }

  std::vector<std::unique_ptr<SupervisedWorker>>& workers_;
  HealthServer* const health_;
  std::vector<bool> was_ready_;
  bool all_ready_ = false;
  Mutex set_ready_;  // guards no member, but makes reading draining_ and setting the port one step
  std::atomic<bool> draining_{false};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

class FleetKeeper {
 public:
  FleetKeeper(const FleetPlan& plan, const SupervisorOptions& options, HealthServer* health)
      : plan_(plan), options_(options) {
    for (const FleetWorker& planned : plan.workers) {
      workers_.push_back(std::make_unique<SupervisedWorker>(planned, options));
      workers_.back()->start = Clock::now();
    }
    watch_.emplace(workers_, health);
  }

  absl::Status Run() {
    while (!ended_ || AnyRuns()) {
      StartWhatIsDue();
      const int signal = WaitForSignal();
      if (signal == SIGTERM || signal == SIGINT) Forward(signal);
      Reap();
      KillHung();
      if (kill_at_ && Clock::now() >= *kill_at_) KillAll();
    }
    return result_;
  }

 private:
  bool AnyRuns() const {
    for (const auto& worker : workers_)
      if (worker->child != nullptr) return true;
    return false;
  }

  void StartWhatIsDue() {
    for (const auto& worker : workers_) {
      if (ended_ || !worker->start || *worker->start > Clock::now()) continue;
      NUMOE_CHECK(worker->child == nullptr) << "a running worker must not be started again";
      worker->start.reset();
      auto child =
          ChildProcess::Start(options_.program, WorkerArguments(options_.arguments, plan_, worker->plan),
                              worker->plan.cpus, worker->restarts);
      if (!child.ok()) {
        End(child.status());
        continue;
      }
      worker->child = *std::move(child);
      worker->ready_since.store(0);
      worker->hang.OnStart();
      worker->hung = false;
      worker->running.store(true);
      LogInfo("worker {} is process {}", worker->plan.index, worker->child->pid());
    }
  }

  // Returns the signal that arrived; 0 if something else is due.
  int WaitForSignal() const {
    Clock::time_point until = Clock::now() + options_.hangs.check_interval;
    if (kill_at_) until = std::min(until, *kill_at_);
    for (const auto& worker : workers_)
      if (worker->start && !ended_) until = std::min(until, *worker->start);
    const auto left = std::max(Clock::duration(0), until - Clock::now());
    const auto nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec timeout{.tv_sec = nanoseconds / 1'000'000'000, .tv_nsec = nanoseconds % 1'000'000'000};
    sigset_t set;
    sigemptyset(&set);
    for (const int signal : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&set, signal);
    return std::max(0, sigtimedwait(&set, nullptr, &timeout));
  }

  void Forward(int signal) {
    LogInfo("signal {}: {}", signal,
            ended_ ? "forwarded again: the workers end at once" : "forwarded, waiting for the workers");
    End(absl::OkStatus());
    for (const auto& worker : workers_)
      if (worker->child != nullptr) worker->child->Signal(signal);
  }

  // From now on no worker is started. Only the reason of the first call counts.
  void End(const absl::Status& why) {
    if (ended_) return;
    ended_ = true;
    result_ = why;
    watch_->Drain();
    kill_at_ = Clock::now() + options_.drain_max;
    if (why.ok()) return;  // the caller forwards the signal to the workers
    for (const auto& worker : workers_)
      if (worker->child != nullptr) worker->child->Signal(SIGTERM);
  }

  void KillAll() {
    for (const auto& worker : workers_) {
      if (worker->child == nullptr) continue;
      LogWarning("worker {} has not ended in time: killed", worker->plan.index);
      worker->child->Signal(SIGKILL);
    }
    kill_at_.reset();
  }

  // Kills hung children. Call it after Reap, so that it sees no child that has ended. Draining children have
  // another deadline, kill_at_.
  void KillHung() {
    const Clock::time_point now = Clock::now();
    if (now - checked_ < options_.hangs.check_interval) return;
    const auto passed = std::chrono::duration_cast<Milliseconds>(now - std::exchange(checked_, now));
    for (const auto& worker : workers_) {
      if (ended_ || worker->child == nullptr || worker->hung) continue;
      const bool served = worker->ready_since.load() != 0;
      worker->hung = worker->hang.Check(passed, served, worker->ready_last.load(), worker->child->Progress());
      if (!worker->hung) continue;
      LogError("worker {} hangs: process {} has {} for {} s; it is killed", worker->plan.index,
               worker->child->pid(), served ? "not said that it serves" : "loaded nothing",
               worker->hang.silence().count() / 1000);
      worker->child->Signal(SIGKILL);
    }
  }

  // Reaps all children that have ended. Process 1 also inherits orphans, which are reaped and ignored.
  void Reap() {
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
      for (const auto& worker : workers_)
        if (worker->child != nullptr && worker->child->pid() == pid) OnEnd(*worker, status);
    }
  }

  void OnEnd(SupervisedWorker& worker, int status) {
    NUMOE_CHECK(worker.child != nullptr && !worker.start) << "only a running worker can end";
    worker.running.store(false);
    const std::string report = worker.child->FinalReport();
    std::string end =
        report.empty() ? DescribeEnd(status) : fmt::format("{}: {}", DescribeEnd(status), report);
    if (worker.hung) end += ", because it hung";
    const bool permanent = worker.child->failed_permanently();
    worker.child.reset();
    if (ended_) return;
    std::optional<Milliseconds> ready_for;
    if (const int64_t since = worker.ready_since.load(); since != 0)
      ready_for = std::chrono::duration_cast<Milliseconds>(Clock::duration(worker.ready_last.load() - since));
    NUMOE_CHECK(!ready_for || ready_for->count() >= 0) << "ready_last is written before ready_since";
    ++(worker.hung ? worker.restarts.hung : worker.restarts.ended);
    const std::optional<Milliseconds> delay = worker.policy.OnEnd(ready_for, permanent);
    if (!delay && permanent)
      return End(absl::AbortedError(fmt::format("worker {} cannot be started: {}", worker.plan.index, end)));
    if (!delay) {
      return End(absl::AbortedError(fmt::format("worker {} could not be started in {} tries: {}",
                                                worker.plan.index, options_.restarts.starts_max, end)));
    }
    LogWarning("worker {} ended with {}; it is started again in {} ms", worker.plan.index, end,
               delay->count());
    worker.start = Clock::now() + *delay;
  }

  const FleetPlan& plan_;
  const SupervisorOptions& options_;
  std::vector<std::unique_ptr<SupervisedWorker>> workers_;
  std::optional<HealthWatch> watch_;
  bool ended_ = false;
  absl::Status result_;
  std::optional<Clock::time_point> kill_at_;
  Clock::time_point checked_ = Clock::now();  // when KillHung last checked the children
};

}  // namespace

absl::Status Supervise(const FleetPlan& plan, const SupervisorOptions& options, HealthServer* health) {
  NUMOE_CHECK(!plan.workers.empty() && !options.program.empty());
  return FleetKeeper(plan, options, health).Run();
}

void BlockChildSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGCHLD);
  const int blocked = pthread_sigmask(SIG_BLOCK, &set, nullptr);
  NUMOE_CHECK_EQ(blocked, 0) << "the supervisor waits for SIGCHLD";
}

}  // namespace numoe::worker
