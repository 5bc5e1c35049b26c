#include "coordinator/startup/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
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

// Of a card's memory, for what the driver allocates by itself: its context, kernels' code, captured graphs.
constexpr uint64_t kDriverBytes = 1536ull << 20;

// What --plan assumes of a card that it only knows the size of: an H100's. All bound scratch only.
constexpr int kPlannedComputeMajor = 9;
constexpr int kPlannedMultiprocessors = 132;
constexpr int64_t kPlannedSharedBytes = 227 << 10;

absl::StatusOr<std::unique_ptr<execution::cuda::Runtime>> OpenGpu([[maybe_unused]] int ordinal) {
#ifdef NUMOE_CUDA
  return execution::cuda::OpenCudaRuntime(ordinal);
#else
  return absl::UnimplementedError(
      "this build has no CUDA; `cmake --preset cuda && cmake --build --preset cuda` makes one that has");
#endif
}

absl::StatusOr<std::vector<int>> CpusFor(int threads) {
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  std::vector<int> cpus;
  for (const NumaNode& node : topology.nodes) cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
  if (const auto quota = CpuQuotaOf("/");
      threads == 0 && quota && *quota < static_cast<double>(cpus.size())) {
    cpus.resize(std::max<size_t>(1, static_cast<size_t>(*quota)));
    LogWarning(
        "a quota leaves this process the time of {:.2f} CPUs: it computes with {} threads (or what --threads "
        "says), so that it is not stopped in the middle of a step; give it whole CPUs instead (cpuset)",
        *quota, cpus.size());
  }
  if (threads > 0) {
    const std::vector<int> all = cpus;
    cpus.clear();
    for (int i = 0; i < threads; ++i) cpus.push_back(all[static_cast<size_t>(i) % all.size()]);
  }
  NUMOE_CHECK(!cpus.empty()) << "a topology has a CPU, and the smallest quota leaves one";
  return cpus;
}

// What only a GPU does, and there is none; `why` may be empty.
absl::Status CheckNoGpuFlags(const ServingOptions& options, const std::string& why) {
  NUMOE_CHECK(options.device.kind != DeviceKind::kCuda) << "without a GPU that is an error of its own";
  std::string flag;
  if (!IsNever(options.capacity.gpu_prefill))
    flag = "--gpu-prefill-token-threshold=" + ToString(options.capacity.gpu_prefill);
  if (const int experts = options.capacity.gpu_experts.value_or(0); experts > 0)
    flag = fmt::format("--num-gpu-experts={}", experts);
  // These are left over where a GPU was expected and is not there: the start says so, and goes on.
  std::string idle;
  if (options.device.gpu_memory) idle = "--gpu-memory=" + options.device.gpu_memory->text;
  if (!options.expert_heat_file.empty()) idle = "--expert-heat-file=" + options.expert_heat_file;
  if (options.device.kind == DeviceKind::kCpu && flag.empty()) flag = idle;
  if (flag.empty() && !idle.empty()) LogWarning("{} changes nothing without a GPU", idle);
  if (flag.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} needs a GPU, and --device={} has none{}{}; start it with --device=cuda where one is, or "
      "leave the flag out: the workers then compute all experts",
      flag, DeviceWord(options.device), why.empty() ? "" : ": ", why));
}

// What only the CPU device does, and the model is on a GPU.
absl::Status CheckNoCpuFlags(const DeviceOptions& device) {
  NUMOE_CHECK(device.kind != DeviceKind::kCpu);
  std::string flag;
  if (device.threads > 0) flag = fmt::format("--threads={}", device.threads);
  if (device.precision != Precision::kFast)
    flag = fmt::format("--activations={}", PrecisionName(device.precision));
  if (device.dense_format) flag = fmt::format("--dense-format={}", WeightFormatName(*device.dense_format));
  if (flag.empty()) return absl::OkStatus();
  if (device.kind == DeviceKind::kAuto) {  // it may be for machines without a GPU
    LogWarning("{} changes nothing on a GPU", flag);
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      fmt::format("{} changes nothing on a GPU, which holds these matrices as published and multiplies them "
                  "in BF16; leave the flag out, or start with --device=cpu",
                  flag));
}

}  // namespace

absl::StatusOr<DeviceChoice> DeviceChoice::Make(const ServingOptions& options) {
  DeviceChoice choice(options.device, options.capacity);
  std::string no_gpu;
  if (options.device.kind != DeviceKind::kCpu) {
    ASSIGN_OR_RETURN(no_gpu, choice.FindGpu(options.plan));
  }
  if (choice.gpu()) {
    RETURN_IF_ERROR(CheckNoCpuFlags(options.device));
    RETURN_IF_ERROR(choice.FindRoom());
  } else {
    RETURN_IF_ERROR(CheckNoGpuFlags(options, no_gpu));
  }
  return choice;
}

absl::StatusOr<std::string> DeviceChoice::FindGpu(bool plan) {
  if (plan && device_.gpu_memory) {  // which need not be here
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
  // A card that cannot be used as things are is not what its owner wants.
  Log(absl::IsFailedPrecondition(runtime.status()) ? LogLevel::kWarning : LogLevel::kInfo,
      "the model runs on the CPU: {}", why);
  return why;
}

absl::Status DeviceChoice::FindRoom() {
  NUMOE_CHECK(gpu()) << "the host tells its own room";
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
  NUMOE_CHECK(measure_only || runtime_ != nullptr) << "each runtime is handed out once, and a plan has none";
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
