#include "coordinator/device_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/topology/control_groups.h"
#include "common/topology/topology.h"
#include "coordinator/device/cpu/cpu_device.h"
#include "coordinator/device/cuda/measuring_device.h"
#include "coordinator/device/kv_block.h"
#ifdef NUMOE_CUDA
#include "coordinator/device/cuda/cuda_device.h"
#include "coordinator/device/cuda/cuda_runtime.h"
#endif

namespace numoe {
namespace {

// Of a card's memory, for what the driver allocates by itself: its context, kernels' code, captured graphs.
constexpr uint64_t kDriverBytes = 1536ull << 20;

// What --plan assumes of a card that it only knows the size of: an H100's. All bound scratch only.
constexpr int kPlannedComputeMajor = 9;
constexpr int kPlannedMultiprocessors = 132;
constexpr int64_t kPlannedSharedBytes = 227 << 10;

absl::StatusOr<std::unique_ptr<cuda::Runtime>> OpenGpu([[maybe_unused]] int ordinal) {
#ifdef NUMOE_CUDA
  return cuda::OpenCudaRuntime(ordinal);
#else
  return absl::UnimplementedError(
      "this program was built without CUDA; build it with -DNUMOE_CUDA=ON, or use --device=cpu");
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
  return cpus;
}

// What only a GPU does, and there is none; `why` may be empty.
absl::Status CheckNoGpuFlags(const CoordinatorFlags& flags, const std::string& why) {
  std::string flag;
  if (flags.gpu_prefill_tokens != 0)
    flag = "--gpu-prefill-token-threshold=" + flags.gpu_prefill_token_threshold;
  if (flags.num_gpu_experts != "auto" && flags.num_gpu_experts != "0")
    flag = "--num-gpu-experts=" + flags.num_gpu_experts;
  if (flag.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(fmt::format(
      "{} needs a GPU, and --device={} has none{}{}; start it with --device=cuda where one is, or "
      "leave the flag out: the workers then compute all experts",
      flag, flags.device, why.empty() ? "" : ": ", why));
}

}  // namespace

absl::StatusOr<uint64_t> ParseBytes(const std::string& text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  std::string unit(read.ptr, end);
  unit.erase(std::remove_if(unit.begin(), unit.end(), [](unsigned char c) { return std::isspace(c) != 0; }),
             unit.end());
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"", 1},         {"b", 1},         {"mb", 1e6},    {"gb", 1e9},     {"m", 1 << 20},
      {"mi", 1 << 20}, {"mib", 1 << 20}, {"g", 1 << 30}, {"gi", 1 << 30}, {"gib", 1 << 30}};
  for (const auto& [name, bytes] : kUnits) {
    if (read.ec == std::errc() && unit == name && number >= 0 && number * bytes < 1e15)
      return static_cast<uint64_t>(number * bytes);
  }
  return absl::InvalidArgumentError(fmt::format("found \"{}\", expected a size like 80GiB or 24GB", text));
}

absl::StatusOr<DeviceChoice> DeviceChoice::Make(const CoordinatorFlags& flags) {
  DeviceChoice choice(flags);
  uint64_t asked = 0;
  if (!flags.gpu_memory.empty()) {
    const absl::StatusOr<uint64_t> bytes = ParseBytes(flags.gpu_memory);
    if (!bytes.ok()) return Annotate(bytes.status(), "--gpu-memory");
    asked = *bytes;
  }
  int ordinal = 0;
  if (flags.device.rfind("cuda:", 0) == 0)
    ordinal = std::stoi(flags.device.substr(5));  // checked by CompleteFlags
  std::string no_gpu;
  const bool plan_without_card = flags.plan && asked > 0 && flags.device != "cpu";
  if (plan_without_card) {
    choice.gpu_ = true;
    choice.facts_ = {.name = fmt::format("a GPU of {}", flags.gpu_memory),
                     .compute_major = kPlannedComputeMajor,
                     .multiprocessors = kPlannedMultiprocessors,
                     .shared_bytes_max = kPlannedSharedBytes,
                     .memory_bytes = asked,
                     .free_bytes = asked};
  } else if (flags.device != "cpu") {
    absl::StatusOr<std::unique_ptr<cuda::Runtime>> runtime = OpenGpu(ordinal);
    if (runtime.ok()) {
      choice.gpu_ = true;
      choice.runtime_ = *std::move(runtime);
      choice.facts_ = choice.runtime_->facts();
      if (choice.facts_.ends_long_kernels)
        LogWarning(
            "{} drives a display and ends kernels that run for seconds, such as those that wait for a "
            "worker; serve from a card without one",
            choice.facts_.name);
    } else if (flags.device != "auto") {
      return Annotate(runtime.status(), "--device=" + flags.device);
    } else {
      no_gpu = std::string(runtime.status().message());
      // A card that cannot be used as things are is not what its owner wants.
      Log(absl::IsFailedPrecondition(runtime.status()) ? LogLevel::kWarning : LogLevel::kInfo,
          "the model runs on the CPU: {}", no_gpu);
    }
  }
  if (!choice.gpu_) {
    RETURN_IF_ERROR(CheckNoGpuFlags(flags, no_gpu));
    return choice;
  }
  uint64_t usable = choice.facts_.free_bytes;
  if (asked > usable) {
    return absl::ResourceExhaustedError(fmt::format("--gpu-memory={}: {} bytes of {} are free",
                                                    flags.gpu_memory, usable, choice.facts_.name));
  }
  if (asked > 0) usable = asked;
  choice.available_ = usable > kDriverBytes ? usable - kDriverBytes : 0;
  return choice;
}

absl::StatusOr<std::unique_ptr<Device>> DeviceChoice::CreateCpu(bool measure_only) const {
  ASSIGN_OR_RETURN(const std::vector<int> cpus, CpusFor(flags_.threads));
  ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(flags_.activations));
  return CpuDevice::Create({.step_tokens_max = flags_.max_num_batched_tokens,
                            .cpus = cpus,
                            .isa = flags_.isa,
                            .precision = precision,
                            .dense_format = flags_.dense_format,
                            .measure_only = measure_only});
}

absl::StatusOr<std::unique_ptr<Device>> DeviceChoice::Create(int64_t context_tokens, bool measure_only) {
  if (!gpu_) return CreateCpu(measure_only);
  const cuda::StepBounds bounds{.rows = flags_.max_num_batched_tokens,
                                .sequences = flags_.max_num_seqs,
                                .blocks_per_sequence = static_cast<int>(KvBlocksFor(context_tokens))};
  if (measure_only) return std::make_unique<cuda::MeasuringDevice>(bounds, facts_);
#ifdef NUMOE_CUDA
  return cuda::CudaDevice::Create(bounds, std::move(runtime_));
#else
  return absl::InternalError("a GPU was chosen by a program without CUDA");
#endif
}

}  // namespace numoe
