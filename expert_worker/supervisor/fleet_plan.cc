#include "expert_worker/supervisor/fleet_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"

namespace numoe::worker {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";
constexpr int kPortMax = 65'535;

using Home = std::vector<NumaNode>;

std::vector<Home> HomesOf(const Topology& topology, bool per_package) {
  std::vector<Home> homes;
  for (const NumaNode& node : topology.nodes) {
    const auto same = std::find_if(homes.begin(), homes.end(), [&](const Home& home) {
      return per_package && node.package >= 0 && home.front().package == node.package;
    });
    if (same == homes.end()) {
      homes.push_back({node});
    } else {
      same->push_back(node);
    }
  }
  NUMOE_CHECK(!homes.empty()) << "a topology has a node";
  return homes;
}

absl::Status CheckCounts(const FleetRequest& request, int local, int homes) {
  if (local > limits::kWorkersMax) {
    return absl::InvalidArgumentError(
        fmt::format("--local-workers={}: expected at most {}", local, limits::kWorkersMax));
  }
  if (request.worker_count > 0 && request.first_index + local > request.worker_count) {
    return absl::InvalidArgumentError(
        fmt::format("--worker-count={}: {} workers beginning with --worker-index={} do not fit; expected at "
                    "least {}, or fewer "
                    "--local-workers (this host has {} home{} for workers, each a NUMA node or a socket)",
                    request.worker_count, local, request.first_index, request.first_index + local, homes,
                    homes == 1 ? "" : "s"));
  }
  if (request.own_home && local > homes) {
    return absl::FailedPreconditionError(
        fmt::format("--pinning required: {} workers would share {} node{}; expected one for each: give fewer "
                    "--local-workers, or CPUs and memory of more nodes",
                    local, homes, homes == 1 ? "" : "s"));
  }
  return absl::OkStatus();
}

// HOST and PORT of an address; both are empty for a folder of Unix sockets.
struct Base {
  std::string host;
  int port = 0;
};

absl::StatusOr<Base> ParseBase(const std::string& listen, int workers) {
  if (listen.rfind(kUnixPrefix, 0) == 0 && listen.size() > kUnixPrefix.size()) return Base{};
  const size_t colon = listen.rfind(':');
  Base base;
  const char* const end = listen.data() + listen.size();
  const char* const number = colon == std::string::npos ? end : listen.data() + colon + 1;
  const auto read = std::from_chars(number, end, base.port);
  if (colon == 0 || read.ec != std::errc() || read.ptr != end || base.port < 1 ||
      base.port + workers - 1 > kPortMax) {
    return absl::InvalidArgumentError(
        fmt::format("--listen={}: expected unix:FOLDER, or HOST:PORT with {} ports from PORT to {} for the "
                    "workers of --supervise",
                    listen, workers, kPortMax));
  }
  base.host = listen.substr(0, colon);
  return base;
}

// With fewer workers than homes each gets several homes; with more they are dealt out to the homes in turn.
void Place(const std::vector<Home>& homes, int local, int place, FleetWorker& worker) {
  const int count = static_cast<int>(homes.size());
  NUMOE_CHECK(0 <= place && place < local);
  const bool alone = local <= count;
  const int begin = alone ? count * place / local : place % count;
  const int end = alone ? count * (place + 1) / local : begin + 1;
  NUMOE_CHECK(begin < end && end <= count);
  Home nodes;
  for (int h = begin; h < end; ++h) {
    for (const NumaNode& node : homes[static_cast<size_t>(h)]) {
      worker.nodes.push_back(node.os_index);
      nodes.push_back(node);
    }
  }
  std::sort(worker.nodes.begin(), worker.nodes.end());
  const int sharing = alone ? 1 : (local - begin + count - 1) / count;
  NUMOE_CHECK(alone || place / count < sharing);
  worker.cpus = ShareOfCpus(nodes, alone ? 0 : place / count, sharing);
}

// The flags that the supervisor decides for its workers; --supervise has no value in the next word.
struct Owned {
  std::string_view name;
  bool takes_word;
};
constexpr std::array kOwned = {Owned{"--supervise", false},    Owned{"--worker-per", true},
                               Owned{"--hung-after-ms", true}, Owned{"--load-stalled-after-ms", true},
                               Owned{"--local-workers", true}, Owned{"--worker-index", true},
                               Owned{"--worker-count", true},  Owned{"--listen", true},
                               Owned{"--metrics-port", true},  Owned{"--health-listen", true},
                               Owned{"--numa-nodes", true},    Owned{"--exclusive-cpus", true}};

const Owned* FindOwned(std::string_view argument) {
  std::string name(argument.substr(0, argument.find('=')));
  std::replace(name.begin(), name.end(), '_', '-');  // flags are read with underscores as well
  const auto found =
      std::find_if(kOwned.begin(), kOwned.end(), [&](const Owned& owned) { return owned.name == name; });
  return found == kOwned.end() ? nullptr : &*found;
}

}  // namespace

std::string FleetPlan::ToString() const {
  std::string text = fmt::format("{} of {} workers", workers.size(), worker_count);
  for (const FleetWorker& worker : workers) {
    text +=
        fmt::format("; worker {} at {} on node{} {} with {} CPUs", worker.index, worker.listen,
                    worker.nodes.size() == 1 ? "" : "s", fmt::join(worker.nodes, ","), worker.cpus.size());
  }
  return text;
}

absl::StatusOr<FleetPlan> PlanFleet(const Topology& topology, const FleetRequest& request) {
  const std::vector<Home> homes = HomesOf(topology, request.per_package);
  const int local = request.local_workers > 0 ? request.local_workers : static_cast<int>(homes.size());
  RETURN_IF_ERROR(CheckCounts(request, local, static_cast<int>(homes.size())));
  ASSIGN_OR_RETURN(const Base base, ParseBase(request.listen, local));
  if (request.metrics_port + local - 1 > kPortMax) {
    return absl::InvalidArgumentError(
        fmt::format("--metrics-port={}: expected at most {}, one for each worker", request.metrics_port,
                    kPortMax - local + 1));
  }
  FleetPlan plan{
      .workers = {},
      .worker_count = request.worker_count > 0 ? request.worker_count : request.first_index + local};
  NUMOE_CHECK_LE(request.first_index + local, plan.worker_count);
  for (int place = 0; place < local; ++place) {
    FleetWorker worker{.index = request.first_index + place,
                       .metrics_port = request.metrics_port == 0 ? 0 : request.metrics_port + place};
    worker.listen = base.port == 0 ? fmt::format("{}/worker-{}.sock", request.listen, worker.index)
                                   : fmt::format("{}:{}", base.host, base.port + place);
    if (!request.health.empty()) worker.health = fmt::format("{}{}", request.health, worker.index);
    Place(homes, local, place, worker);
    plan.workers.push_back(std::move(worker));
  }
  return plan;
}

std::vector<std::string> WorkerArguments(const std::vector<std::string>& arguments, const FleetPlan& plan,
                                         const FleetWorker& worker) {
  NUMOE_CHECK(0 <= worker.index && worker.index < plan.worker_count);
  std::vector<std::string> kept;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == "--")
      break;  // what would follow belongs to no flag, and the worker has no such words
    const Owned* owned = FindOwned(arguments[i]);
    if (owned == nullptr) {
      kept.push_back(arguments[i]);
    } else if (owned->takes_word && arguments[i].find('=') == std::string::npos) {
      ++i;
    }
  }
  // Give all of them, because the command line takes precedence over the environment and the file.
  for (const std::string& decided :
       {std::string("--supervise=false"), fmt::format("--worker-index={}", worker.index),
        fmt::format("--worker-count={}", plan.worker_count), "--listen=" + worker.listen,
        fmt::format("--metrics-port={}", worker.metrics_port), "--health-listen=" + worker.health,
        fmt::format("--numa-nodes={}", fmt::join(worker.nodes, ",")),
        fmt::format("--exclusive-cpus={}", worker.cpus.size())})
    kept.push_back(decided);
  return kept;
}

}  // namespace numoe::worker
