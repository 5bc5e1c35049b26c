#include "coordinator/startup/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"
#include "common/topology/control_groups.h"
#include "common/topology/topology.h"
#include "common/weights/weights_limits.h"
#include "coordinator/execution/device/cpu/cpu_device.h"
#include "coordinator/execution/device/cuda/measuring_device.h"
#include "coordinator/execution/device/kv_block.h"
#ifdef NUMOE_CUDA
#include "coordinator/execution/device/cuda/cuda_device.h"
#include "coordinator/execution/device/cuda/cuda_runtime.h"
#endif

namespace numoe::startup {
namespace {

// The part of a card's memory for what the driver allocates by itself: its context, code of kernels, captured
// graphs.
constexpr uint64_t kDriverBytes = 1536ull << 20;

// What --plan assumes about a card if it knows only the size: the numbers of an H100. They bound only the
// scratch.
constexpr int kPlannedComputeMajor = 9;
constexpr int kPlannedMultiprocessors = 132;
constexpr int64_t kPlannedSharedBytes = 227 << 10;

absl::StatusOr<std::unique_ptr<execution::cuda::Runtime>> OpenGpu([[maybe_unused]] int ordinal) {
#ifdef NUMOE_CUDA
  return execution::cuda::OpenCudaRuntime(ordinal);
#else
  return absl::UnimplementedError(
      "this build has no CUDA; the package numoe-cuda has it, and so has a build with `cmake --preset cuda`");
#endif
}

absl::StatusOr<std::vector<int>> CpusFor(int threads) {
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  std::vector<int> cpus = ComputeCpus(topology.nodes, threads);
  if (const auto quota = CpuQuotaOf("/");
      threads == 0 && quota && *quota < static_cast<double>(cpus.size())) {
    cpus.resize(std::max<size_t>(1, static_cast<size_t>(*quota)));
    LogWarning(
        "a quota leaves this process the time of {:.2f} CPUs: it computes with {} threads (or what --threads "
        "says), so that it is not stopped in the middle of a step; give it whole CPUs instead (cpuset)",
        *quota, cpus.size());
  }
  NUMOE_CHECK(!cpus.empty()) << "a topology has a CPU, and the smallest quota leaves one";
  return cpus;
}

// A flag that does something on one kind of device only, and why it does nothing on the other.
struct DeviceFlag {
  std::string name, value, why;
  std::string ToString() const { return fmt::format("--{}={}", name, value); }
};

// Handles flags that do nothing on the chosen device. If --device names the kind of device, returns the first
// flag that is on the command line, which is to be refused; null if there is none. The other flags are
// logged, because they may be for other machines, or, in the environment or the file, for other daemons.
const DeviceFlag* WarnOrRefuse(const ServingOptions& options, const std::vector<DeviceFlag>& flags,
                               std::string_view where) {
  for (const DeviceFlag& flag : flags) {
    if (options.device.kind != DeviceKind::kAuto && options.typed.count(flag.name) > 0) return &flag;
    LogWarning("{} changes nothing {}: {}", flag.ToString(), where, flag.why);
  }
  return nullptr;
}

// Refuses or logs what only a GPU does, where there is none; `reason` says why there is none, and may be
// empty.
absl::Status CheckNoGpuFlags(const ServingOptions& options, const std::string& reason) {
  NUMOE_CHECK(options.device.kind != DeviceKind::kCuda) << "without a GPU that is an error of its own";
  const std::string advice = fmt::format(
      "needs a GPU, and --device={} has none{}{}; start it with --device=cuda where one is, or leave the "
      "flag out: the workers then compute all experts",
      DeviceWord(options.device), reason.empty() ? "" : ": ", reason);
  if (const int experts = options.capacity.gpu_experts.value_or(0); experts > 0)
    return absl::FailedPreconditionError(fmt::format("--num-gpu-experts={} {}", experts, advice));
  if (!IsNever(options.capacity.gpu_prefill)) {
    return absl::FailedPreconditionError(
        fmt::format("--gpu-prefill-token-threshold={} {}", ToString(options.capacity.gpu_prefill), advice));
  }
  std::vector<DeviceFlag> idle;
  if (options.device.gpu_memory)
    idle.push_back({"gpu-memory", options.device.gpu_memory->text, "the model is in the host's memory"});
  if (!options.expert_heat_file.empty())
    idle.push_back({"expert-heat-file", options.expert_heat_file, "the workers compute all experts"});
  const DeviceFlag* const refused = WarnOrRefuse(options, idle, "without a GPU");
  if (refused == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format("{} {}", refused->ToString(), advice));
}

// Refuses or logs what only the CPU device does, where the model is on a GPU.
absl::Status CheckNoCpuFlags(const ServingOptions& options) {
  const DeviceOptions& device = options.device;
  NUMOE_CHECK(device.kind != DeviceKind::kCpu);
  std::vector<DeviceFlag> idle;
  if (device.threads > 0)
    idle.push_back({"threads", std::to_string(device.threads), "they are the threads of the CPU device"});
  if (device.isa_chosen)
    idle.push_back({"isa", std::string(IsaName(device.isa)), "no kernel of the CPU computes there"});
  if (device.precision != Precision::kFast)
    idle.push_back({"activations", std::string(PrecisionName(device.precision)), "a GPU multiplies in BF16"});
  if (device.dense_format) {
    idle.push_back({"dense-format", std::string(WeightFormatName(*device.dense_format)),
                    "a GPU holds these matrices as published"});
  }
  if (options.memory_reservations != "auto") {
    idle.push_back({"memory-reservations", options.memory_reservations,
                    "the model takes memory of the GPU, and nothing of the host's is reserved"});
  }
  const DeviceFlag* const refused = WarnOrRefuse(options, idle, "on a GPU");
  if (refused == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      fmt::format("{} changes nothing on a GPU: {}; leave the flag out, or start with --device=cpu",
                  refused->ToString(), refused->why));
}

}  // namespace

absl::StatusOr<DeviceChoice> DeviceChoice::Make(const ServingOptions& options) {
  DeviceChoice choice(options.device, options.capacity);
  std::string no_gpu;
  if (options.device.kind != DeviceKind::kCpu) {
    ASSIGN_OR_RETURN(no_gpu, choice.FindGpu(options.plan));
  }
  if (choice.gpu()) {
    RETURN_IF_ERROR(CheckNoCpuFlags(options));
    RETURN_IF_ERROR(choice.FindRoom());
  } else {
    RETURN_IF_ERROR(CheckNoGpuFlags(options, no_gpu));
  }
  return choice;
}

absl::StatusOr<std::string> DeviceChoice::FindGpu(bool plan) {
  if (plan && device_.gpu_memory) {  // for a card that does not have to be in this machine
    room_.gpu = true;
    facts_ = {.name = "a GPU of " + device_.gpu_memory->text,
              .compute_major = kPlannedComputeMajor,
              .multiprocessors = kPlannedMultiprocessors,
              .shared_bytes_max = kPlannedSharedBytes,
              .memory_bytes = device_.gpu_memory->bytes,
              .free_bytes = device_.gpu_memory->bytes};
    return "";
  }
  absl::StatusOr<std::unique_ptr<execution::cuda::Runtime>> runtime = OpenGpu(device_.ordinal.value_or(0));
  if (runtime.ok()) {
    room_.gpu = true;
    runtime_ = *std::move(runtime);
    facts_ = runtime_->facts();
    if (facts_.ends_long_kernels)
      LogWarning(
          "{} drives a display and ends kernels that run for seconds, such as those that wait for a "
          "worker; serve from a card without one",
          facts_.name);
    return "";
  }
  if (device_.kind == DeviceKind::kCuda) return Annotate(runtime.status(), "--device=" + DeviceWord(device_));
  const std::string why(runtime.status().message());
  // A card that is there but cannot be used deserves a warning: its owner wants it used.
  Log(absl::IsFailedPrecondition(runtime.status()) ? LogLevel::kWarning : LogLevel::kInfo,
      "the model runs on the CPU: {}", why);
  return why;
}

absl::Status DeviceChoice::FindRoom() {
  NUMOE_CHECK(gpu()) << "the host's room is found by host_share.h";
  uint64_t usable = facts_.free_bytes;
  if (device_.gpu_memory) {
    if (device_.gpu_memory->bytes > usable) {
      return absl::ResourceExhaustedError(fmt::format("--gpu-memory={}: {} bytes of {} are free",
                                                      device_.gpu_memory->text, usable, facts_.name));
    }
    usable = device_.gpu_memory->bytes;
  }
  room_.available = usable > kDriverBytes ? usable - kDriverBytes : 0;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<execution::Device>> DeviceChoice::CreateCpu(bool measure_only) const {
  ASSIGN_OR_RETURN(const std::vector<int> cpus, CpusFor(device_.threads));
  return execution::CpuDevice::Create({.step_tokens_max = step_tokens_,
                                       .cpus = cpus,
                                       .isa = device_.isa,
                                       .precision = device_.precision,
                                       .dense_format = device_.dense_format,
                                       .measure_only = measure_only});
}

absl::StatusOr<std::unique_ptr<execution::Device>> DeviceChoice::Create(int64_t context_tokens,
                                                                        bool measure_only) {
  NUMOE_CHECK(0 < context_tokens && context_tokens <= limits::kPositionsMax) << context_tokens;
  if (!gpu()) return CreateCpu(measure_only);
  NUMOE_CHECK(measure_only || runtime_ != nullptr) << "Create was called before, or this is a plan";
  const execution::cuda::StepBounds bounds{
      .rows = step_tokens_,
      .sequences = sequences_,
      .blocks_per_sequence = static_cast<int>(execution::KvBlocksFor(context_tokens))};
  if (measure_only) return std::make_unique<execution::cuda::MeasuringDevice>(bounds, facts_);
#ifdef NUMOE_CUDA
  return execution::cuda::CudaDevice::Create(bounds, std::move(runtime_));
#else
  return absl::InternalError("a GPU was chosen by a program without CUDA");
#endif
}

}  // namespace numoe::startup
