#include "coordinator/startup/serving_options.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/kernels/kernels.h"
#include "common/transport/peer_credentials.h"
#include "common/transport/transport_limits.h"
#include "common/weights/model_place.h"
#include "coordinator/net/http/server_flags.h"
#include "coordinator/startup/peer_flags.h"
#include "coordinator/startup/serving_flags.h"
#include "coordinator/startup/startup_limits.h"

namespace numoe::startup {
namespace {

absl::Status CheckWorkerAddress(const std::string& address) {
  if (address.find(' ') != std::string::npos || address.find("://") != std::string::npos) {
    return absl::InvalidArgumentError(fmt::format(
        "--workers: found \"{}\", expected HOST:PORT or unix:PATH, separated by commas and without \"//\"",
        address));
  }
  if (IsUnixAddress(address) && address != "unix:") return absl::OkStatus();
  const size_t colon = address.rfind(':');
  int port = 0;
  const char* const end = address.data() + address.size();
  const char* const number = colon == std::string::npos ? end : address.data() + colon + 1;
  const auto read = std::from_chars(number, end, port);
  if (colon != 0 && read.ec == std::errc() && read.ptr == end && port >= 1 && port <= 65'535)
    return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--workers: found \"{}\", expected HOST:PORT or unix:PATH", address));
}

// Reads "80GiB", "24 GB", "81920MiB", or a plain number of bytes.
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

// Returns the number that the whole text is; nullopt if it is not one from `low` to `high`.
std::optional<int> ParseNumber(std::string_view text, int low, int high) {
  NUMOE_CHECK_LE(low, high);
  int number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < low || number > high) return std::nullopt;
  return number;
}

absl::Status ReadDevice(const ServingFlags& f, DeviceOptions& device) {
  constexpr std::string_view kNumbered = "cuda:";
  constexpr int kOrdinalMax = 999;
  if (f.device == "cpu") {
    device.kind = DeviceKind::kCpu;
  } else if (f.device != "auto") {
    device.kind = DeviceKind::kCuda;
    if (f.device.rfind(kNumbered, 0) == 0)
      device.ordinal = ParseNumber(std::string_view(f.device).substr(kNumbered.size()), 0, kOrdinalMax);
    if (f.device != "cuda" && !device.ordinal) {
      return absl::InvalidArgumentError(
          fmt::format("--device: found \"{}\", expected auto, cpu, cuda or cuda:N", f.device));
    }
  }
  if (!f.gpu_memory.empty()) {
    const absl::StatusOr<uint64_t> bytes = ParseBytes(f.gpu_memory);
    if (!bytes.ok()) return Annotate(bytes.status(), "--gpu-memory");
    if (*bytes > 0) device.gpu_memory = {.bytes = *bytes, .text = f.gpu_memory};
  }
  const absl::StatusOr<Isa> isa = SelectIsa(f.isa);
  if (!isa.ok()) return Annotate(isa.status(), "--isa");
  device.isa = *isa;
  device.isa_chosen = f.isa != "auto";
  const absl::StatusOr<Precision> precision = ParsePrecision(f.activations);
  if (!precision.ok()) return Annotate(precision.status(), "--activations");
  device.precision = *precision;
  const absl::StatusOr<std::optional<WeightFormat>> format = ParseWeightFormatOrAuto(f.dense_format);
  if (!format.ok()) return Annotate(format.status(), "--dense-format");
  device.dense_format = *format;
  return absl::OkStatus();
}

absl::Status ReadCapacity(const ServingFlags& f, CapacityRequest& capacity) {
  const absl::StatusOr<execution::CacheType> cache = execution::ParseCacheType(f.kv_cache_dtype);
  if (!cache.ok()) return Annotate(cache.status(), "--kv-cache-dtype");
  capacity.kv_type = *cache;
  capacity.gpu_experts = std::nullopt;
  if (f.num_gpu_experts != "auto") {
    capacity.gpu_experts = ParseNumber(f.num_gpu_experts, 0, limits::kGpuExpertsMax);
    if (!capacity.gpu_experts) {
      return absl::InvalidArgumentError(
          fmt::format("--num-gpu-experts: found \"{}\", expected auto or 0 to {}", f.num_gpu_experts,
                      limits::kGpuExpertsMax));
    }
  }
  constexpr const char* kPrefill = "--gpu-prefill-token-threshold";
  const absl::StatusOr<TokenThreshold> prefill = ParseTokenThreshold(f.gpu_prefill_token_threshold);
  if (!prefill.ok()) return Annotate(prefill.status(), kPrefill);
  capacity.gpu_prefill = *prefill;
  return absl::OkStatus();
}

execution::DataPath DataPathOf(const std::string& word) {
  if (word == "shm") return execution::DataPath::kSharedMemory;
  if (word == "grpc") return execution::DataPath::kGrpc;
  NUMOE_CHECK_EQ(word, "auto") << "the flag allows no other word";
  return execution::DataPath::kAuto;
}

// Refuses a threshold that no step can reach.
absl::Status CheckReachable(const char* flag, const TokenThreshold& threshold, int step_tokens) {
  const auto* const from = std::get_if<FromTokens>(&threshold);
  if (from == nullptr || from->tokens <= step_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{}={}: no step has that many tokens; expected at most --max-num-batched-tokens={}", flag,
                  from->tokens, step_tokens));
}

// Refuses flags that contradict each other, whatever the machine and the model.
absl::Status CheckTogether(const ServingOptions& o) {
  const CapacityRequest& capacity = o.capacity;
  if (!IsNever(capacity.gpu_prefill) && o.deterministic)
    return absl::InvalidArgumentError(
        "--gpu-prefill-token-threshold with --deterministic: expected one of them, because the device that "
        "computes a prompt depends on what else the step computes");
  if (!IsNever(capacity.gpu_prefill) && o.workers.data_path == execution::DataPath::kGrpc)
    return absl::InvalidArgumentError(
        "--gpu-prefill-token-threshold with --data-path=grpc: the workers' memory is reached through shared "
        "memory only");
  RETURN_IF_ERROR(CheckAllOrNone(o.workers.tls));
  if (o.share_prefix_cache && !o.prefix_caching) {
    return absl::InvalidArgumentError(
        "--share-prefix-cache with --disable-prefix-caching: expected one of them, because without a cache "
        "there is nothing to share");
  }
  if (capacity.step_tokens < capacity.sequences_max) {
    return absl::InvalidArgumentError(
        fmt::format("--max-num-batched-tokens={}: expected at least --max-num-seqs={}, one token for each",
                    capacity.step_tokens, capacity.sequences_max));
  }
  RETURN_IF_ERROR(
      CheckReachable("--gpu-prefill-token-threshold", capacity.gpu_prefill, capacity.step_tokens));
  RETURN_IF_ERROR(CheckReachable("--two-batch-overlap", o.overlap, capacity.step_tokens));
  if (o.deterministic && o.deferred_experts > 0 && capacity.step_tokens > limits::kDeferringTokensMax) {
    return absl::InvalidArgumentError(fmt::format(
        "--max-num-batched-tokens={} with --deterministic and --max-deferred-experts-per-token={}: "
        "expected at most {}",
        capacity.step_tokens, o.deferred_experts, limits::kDeferringTokensMax));
  }
  return net::CheckServerFlags(o.api.server);
}

absl::StatusOr<ServingOptions> OptionsFrom(ServingFlags f) {
  ServingOptions& o = f.options;
  if (o.model.empty()) return absl::InvalidArgumentError("--model is empty: expected a path");
  if (o.workers.addresses.empty() && !o.plan)
    return absl::InvalidArgumentError("--workers is missing: expected the addresses of all expert workers");
  RETURN_IF_ERROR(ReadDevice(f, o.device));
  RETURN_IF_ERROR(ReadCapacity(f, o.capacity));
  const absl::StatusOr<TokenThreshold> overlap = ParseTokenThreshold(f.two_batch_overlap);
  if (!overlap.ok()) return Annotate(overlap.status(), "--two-batch-overlap");
  o.overlap = *overlap;
  for (const std::string& worker : o.workers.addresses) RETURN_IF_ERROR(CheckWorkerAddress(worker));
  ASSIGN_OR_RETURN(o.workers.shared_memory_group, ParseSharedMemoryGroup(f.shared_memory_group));
  o.workers.data_path = DataPathOf(f.data_path);
  o.prefix_caching = !f.disable_prefix_caching;
  o.api.reasoning_parser = OwnReasoningParser(o.api.reasoning_parser);
  o.api.tool_call_parser = OwnToolCallParser(o.api.tool_call_parser);
  RETURN_IF_ERROR(CheckTogether(o));
  RETURN_IF_ERROR(f.unused);
  ASSIGN_OR_RETURN(o.api.locked, serving::ParseSamplingLocks(f.locked_sampling));
  ASSIGN_OR_RETURN(ModelPlace place, FindModel(o.model));
  o.model = std::move(place.path);
  if (o.served_model_names.empty()) o.served_model_names = {std::move(place.name)};
  return std::move(o);
}

}  // namespace

std::string DeviceWord(const DeviceOptions& device) {
  NUMOE_CHECK(!device.ordinal || device.kind == DeviceKind::kCuda) << "only a GPU has a number";
  if (device.ordinal) return fmt::format("cuda:{}", *device.ordinal);
  return device.kind == DeviceKind::kAuto ? "auto" : device.kind == DeviceKind::kCpu ? "cpu" : "cuda";
}

absl::StatusOr<ServingCommand> ReadServingOptions(int argc, char** argv) {
  ServingFlags flags;
  if (const int code = ParseServingFlags(argc, argv, flags); code >= 0) return code;
  ASSIGN_OR_RETURN(ServingOptions options, OptionsFrom(std::move(flags)));
  return options;
}

}  // namespace numoe::startup
