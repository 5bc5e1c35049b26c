#include "coordinator/clients/bench/gpu/bench_worker.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "common/base/check.h"
#include "common/base/status.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/service/worker_service.h"
#include "expert_worker/tools/synthetic_checkpoint.h"

namespace numoe::clients {

enum class State : uint32_t { kStarting, kServing, kFailed };

// Memory that both processes share.
struct BenchWorker::Shared {
  std::atomic<State> state{State::kStarting};
  std::atomic<bool> computing{true};
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> nanoseconds{0};
  char error[512] = {};
  static_assert(std::atomic<State>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
                    std::atomic<uint64_t>::is_always_lock_free,
                "a lock of one process does not exclude the other");
};

namespace {

// Computes one layer in place of every layer, and adds up the time.
class TimedExecutor final : public LayerExecutor {
 public:
  TimedExecutor(LayerExecutor* inner, const std::atomic<bool>& computing, std::atomic<uint64_t>& calls,
                std::atomic<uint64_t>& nanoseconds)
      : inner_(inner), computing_(computing), calls_(calls), nanoseconds_(nanoseconds) {}

  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    NUMOE_DCHECK_EQ(out.size(), call.hidden.size());
    const auto begin = std::chrono::steady_clock::now();
    absl::Status status;
    if (inner_ == nullptr || !computing_) {
      std::fill(out.begin(), out.end(), 0.0f);
    } else {
      LayerCallView first = call;
      first.layer = 0;
      status = inner_->Execute(first, out);
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    nanoseconds_ += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(took).count());
    ++calls_;
    return status;
  }

 private:
  LayerExecutor* const inner_;  // if null, every answer is zeros
  const std::atomic<bool>& computing_;
  std::atomic<uint64_t>& calls_;
  std::atomic<uint64_t>& nanoseconds_;
};

}  // namespace

absl::Status BenchWorker::Serve(const BenchWorkerOptions& options, Shared& shared) {
  NUMOE_CHECK(options.hidden > 0 && options.experts_per_token <= options.experts) << options.experts;
  std::unique_ptr<worker::SyntheticCheckpoint> checkpoint;
  std::unique_ptr<worker::ExpertExecutor> executor;
  if (options.width > 0) {
    checkpoint = std::make_unique<worker::SyntheticCheckpoint>(
        worker::SyntheticOptions{.hidden_size = options.hidden,
                                 .intermediate_size = options.width,
                                 .experts = options.experts,
                                 .experts_per_token = options.experts_per_token});
    ASSIGN_OR_RETURN(executor, worker::ExpertExecutor::Load(*checkpoint, checkpoint->config(),
                                                            {.threads = options.threads}));
  }
  TimedExecutor timed(executor.get(), shared.computing, shared.calls, shared.nanoseconds);
  ASSIGN_OR_RETURN(const auto service,
                   worker::WorkerService::Start(timed, {.listen = "unix:" + options.socket,
                                                        .hidden_size = options.hidden,
                                                        .num_experts = options.experts,
                                                        .experts_per_token = options.experts_per_token}));
  shared.state = State::kServing;
  for (;;) pause();  // until the process is killed
}

absl::StatusOr<std::unique_ptr<BenchWorker>> BenchWorker::Start(const BenchWorkerOptions& options) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return absl::ResourceExhaustedError("cannot allocate the memory that is shared with the worker process");
  auto worker = std::unique_ptr<BenchWorker>(new BenchWorker(options, new (memory) Shared));
  Shared& shared = *worker->shared_;
  const pid_t parent = getpid();
  worker->process_ = fork();
  if (worker->process_ < 0) return absl::InternalError("cannot fork the worker process");
  if (worker->process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);  // the parent had ended before the signal was set
    const std::string message(Serve(options, shared).message());
    std::strncpy(shared.error, message.c_str(), sizeof shared.error - 1);
    shared.state = State::kFailed;
    _exit(1);
  }
  while (shared.state == State::kStarting) {
    int status = 0;
    if (waitpid(worker->process_, &status, WNOHANG) == worker->process_) {
      worker->process_ = -1;
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (shared.state == State::kServing) return worker;
  return absl::InternalError(
      fmt::format("the worker process did not start: {}", shared.error[0] != 0 ? shared.error : "it ended"));
}

BenchWorker::~BenchWorker() {
  if (process_ > 0) {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    unlink(options_.socket.c_str());
  }
  munmap(shared_, sizeof(Shared));
}

void BenchWorker::SetComputing(bool computing) { shared_->computing = computing; }

double BenchWorker::TakeSecondsPerCall() {
  const uint64_t calls = shared_->calls.exchange(0), nanoseconds = shared_->nanoseconds.exchange(0);
  return calls == 0 ? 0 : static_cast<double>(nanoseconds) / static_cast<double>(calls) * 1e-9;
}

}  // namespace numoe::clients
