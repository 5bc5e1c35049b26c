#include "expert_worker/preflight/worker_memory.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/base/memory_size.h"
#include "common/base/status.h"

namespace numoe::worker {
namespace {

using Clock = std::chrono::steady_clock;

// The kernel needs seconds to free the hundreds of GiB of a process that has just ended, so this waits as
// long as the available memory grows.
constexpr std::chrono::seconds kPatience(30), kUnlessMoreComes(1);
constexpr std::chrono::milliseconds kLookInterval(200);

std::string InBrackets(const std::string& text) { return text.empty() ? "" : fmt::format(" ({})", text); }

// What the workers of one host take together.
struct Sum {
  uint64_t weight_bytes = 0;
  uint64_t buffer_bytes = 0;
  uint64_t mailbox_bytes = 0;
  uint64_t total() const { return weight_bytes + buffer_bytes + mailbox_bytes; }
};

Sum SumOf(const std::vector<WorkerNeeds>& workers) {
  NUMOE_CHECK(!workers.empty()) << "CompareWorkerMemory requires one";
  Sum sum;
  for (const WorkerNeeds& needs : workers) {
    sum.weight_bytes += needs.weight_bytes;
    sum.buffer_bytes += kWorkerBytesBesideWeights;
    sum.mailbox_bytes += needs.mailbox_bytes;
  }
  return sum;
}

// Returns the number of workers in the set with which the workers of this host would fit; 0 if no number is
// enough.
uint64_t FittingWorkers(const Sum& sum, int worker_count, uint64_t available) {
  NUMOE_CHECK_GT(worker_count, 0);
  const uint64_t beside = sum.buffer_bytes + sum.mailbox_bytes;
  if (available <= beside) return 0;
  const uint64_t for_weights = available - beside;
  const uint64_t of_all = sum.weight_bytes * static_cast<uint64_t>(worker_count);
  const uint64_t workers = (of_all + for_weights - 1) / for_weights;
  return workers <= limits::kWorkersMax ? workers : 0;
}

// Says what to do. Flags are named only if they could be enough.
std::string WaysToFit(const Sum& sum, const WorkerNeeds& first, uint64_t available, bool others) {
  NUMOE_CHECK_GT(sum.total(), available);
  constexpr uint64_t kSmallestFormatShare = 4;  // INT4 with its scales takes more than a quarter of BF16
  const int worker_count = first.worker_count;
  std::vector<std::string> ways = {others ? "end or shrink the processes named above" : "free memory"};
  if (sum.weight_bytes / kSmallestFormatShare + sum.buffer_bytes + sum.mailbox_bytes < available)
    ways.push_back(first.packed
                       ? "pack the model again in a smaller format"
                       : "hold the weights in fewer bits with --format=int8 or int4, if they have more now");
  if (sum.total() - sum.mailbox_bytes <= available)
    ways.push_back("use no mailboxes (--no-shared-memory: layer calls are slower)");
  if (const uint64_t workers = FittingWorkers(sum, worker_count, available); workers > 0) {
    ways.push_back(
        fmt::format("start more workers on other hosts{}: the slice of --worker-count={} fits here (now {})",
                    first.packed ? ", with the model packed for them" : "", workers, worker_count));
  }
  return fmt::format("{}", fmt::join(ways, ", or "));
}

}  // namespace

Finding CompareWorkerMemory(const std::vector<WorkerNeeds>& workers, uint64_t available,
                            const std::string& others) {
  const Sum sum = SumOf(workers);
  const bool fits = sum.total() <= available;
  const std::string who =
      workers.size() == 1 ? "the worker takes" : fmt::format("its {} workers take", workers.size());
  return {"memory_available", fits,
          fmt::format("{} are available to this process{}, {}{} {}: weights {}, buffers {}, {} {}",
                      MemorySize(available), InBrackets(others), fits ? "" : "but ", who,
                      MemorySize(sum.total()), MemorySize(sum.weight_bytes), MemorySize(sum.buffer_bytes),
                      workers.size() == 1 ? "mailbox" : "mailboxes", MemorySize(sum.mailbox_bytes)),
          fits ? "" : WaysToFit(sum, workers.front(), available, !others.empty())};
}

absl::Status CheckWorkerMemory(const WorkerNeeds& needs, uint64_t available, const std::string& others) {
  const Finding finding = CompareWorkerMemory({needs}, available, others);
  if (finding.good) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format("{}; {}", finding.what, finding.advice));
}

absl::StatusOr<MemoryReservation> ReserveWorkerMemory(const WorkerNeeds& needs, const std::string& folder,
                                                      const std::string& program,
                                                      const std::filesystem::path& root) {
  std::string found;
  MemoryReservation reservation;
  uint64_t most = 0;
  for (Clock::time_point begin = Clock::now(), grew = begin; found.empty();) {
    absl::Status fits;
    {
      ASSIGN_OR_RETURN(const HostMemory host, HostMemory::ReadReservations(folder, root));
      const std::string others = host.Others();
      fits = CheckWorkerMemory(needs, host.available(), others);
      if (fits.ok()) {
        ASSIGN_OR_RETURN(reservation, host.Reserve(program, needs.total(), PromisedMemory::kAll));
        found = fmt::format("{} available{}", MemorySize(host.available()), InBrackets(others));
        break;
      }
      if (host.available() > most) grew = Clock::now();
      most = std::max(most, host.available());
    }
    if (Clock::now() - grew > kUnlessMoreComes || Clock::now() - begin > kPatience) return fits;
    std::this_thread::sleep_for(kLookInterval);  // and other processes can check meanwhile
  }
  LogInfo(
      "memory plan: {} of {}; weights {}, buffers {}, mailbox {} (of one coordinator; each additional one on "
      "this host takes the same)",
      MemorySize(needs.total()), found, MemorySize(needs.weight_bytes), MemorySize(kWorkerBytesBesideWeights),
      MemorySize(needs.mailbox_bytes));
  return reservation;
}

}  // namespace numoe::worker
