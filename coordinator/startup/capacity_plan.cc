#include "coordinator/startup/capacity_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>

#include "common/base/check.h"
#include "common/base/memory_size.h"
#include "common/base/status.h"
#include "coordinator/startup/startup_limits.h"
#include "coordinator/text/grammar/grammar_limits.h"

namespace numoe::startup {
namespace {

// Without --max-total-tokens the cache of a CPU has room for this number of tokens of every sequence.
constexpr int64_t kUsualSequenceTokens = 4096;

static_assert(limits::kKvTokensMax / execution::kKvBlockTokens <= INT_MAX, "blocks are counted in an int");
static_assert(limits::kRunningSequencesMax * kUsualSequenceTokens <= limits::kKvTokensMax,
              "--max-total-tokens may ask for the usual cache of any number of sequences");

int64_t LongestSequence(const CapacityRequest& request, const ModelConfig& config) {
  return request.model_len_max > 0 ? std::min(request.model_len_max, config.max_position_embeddings)
                                   : config.max_position_embeddings;
}

// Returns the longest sequence that a cache of `blocks` allows: no sequence is longer than the whole cache.
int64_t HeldBy(int blocks, int64_t tokens) {
  return std::min(tokens, int64_t{blocks} * execution::kKvBlockTokens);
}

Capacity UsualCapacity(const CapacityRequest& request, const ModelConfig& config) {
  const int64_t usual =
      request.sequences_max * std::min(kUsualSequenceTokens, config.max_position_embeddings);
  Capacity capacity;
  capacity.kv_blocks =
      static_cast<int>(execution::KvBlocksFor(request.kv_tokens > 0 ? request.kv_tokens : usual));
  capacity.model_len = HeldBy(capacity.kv_blocks, LongestSequence(request, config));
  return capacity;
}

// Chooses the size of a window: a whole layer if two of them fit beside the rest, otherwise a half, a quarter
// or an eighth of a layer.
absl::Status ChooseWindow(const ModelConfig& config, uint64_t available, MeasureCapacity measure,
                          Capacity& capacity) {
  constexpr int kPartsMax = 8;
  for (int parts = 1; parts <= kPartsMax; parts *= 2) {
    capacity.window = std::min((config.num_experts + parts - 1) / parts, limits::kGpuExpertsMax);
    ASSIGN_OR_RETURN(const execution::DeviceMemory needs, measure(capacity));
    if (needs.total() <= available) break;
  }
  NUMOE_CHECK(0 <= capacity.window && capacity.window <= config.num_experts) << capacity.window;
  return absl::OkStatus();
}

// Chooses as many experts per layer as fit beside the rest.
absl::Status FitExperts(const ModelConfig& config, uint64_t available, MeasureCapacity measure,
                        Capacity& capacity) {
  capacity.gpu_experts = 1;
  ASSIGN_OR_RETURN(const execution::DeviceMemory one, measure(capacity));
  NUMOE_CHECK_GT(one.experts, 0u) << "an expert takes no memory";
  const uint64_t rest = one.total() - one.experts;
  const auto fitting = available <= rest ? 0 : static_cast<int64_t>((available - rest) / one.experts);
  capacity.gpu_experts =
      static_cast<int>(std::min<int64_t>({fitting, config.num_experts, limits::kGpuExpertsMax}));
  return absl::OkStatus();
}

// Gives the cache all memory that the rest leaves, up to what sequences can use.
absl::Status FitCache(const CapacityRequest& request, uint64_t available, MeasureCapacity measure,
                      Capacity& capacity) {
  Capacity one_block = capacity;
  one_block.kv_blocks = 1;
  ASSIGN_OR_RETURN(const execution::DeviceMemory one, measure(one_block));
  const int64_t useful = int64_t{request.sequences_max} * execution::KvBlocksFor(capacity.model_len);
  const int64_t blocks = std::min(
      {FittingCacheBlocks(one, available), useful, limits::kKvTokensMax / execution::kKvBlockTokens});
  if (blocks > 0) capacity.kv_blocks = static_cast<int>(blocks);  // otherwise Check reports it
  capacity.model_len = HeldBy(capacity.kv_blocks, capacity.model_len);
  return absl::OkStatus();
}

std::string Others(const std::string& others) { return others.empty() ? "" : fmt::format(" ({})", others); }

}  // namespace

int64_t FittingCacheBlocks(const execution::DeviceMemory& one_block, uint64_t available) {
  const uint64_t rest = one_block.total() - one_block.kv_cache;
  if (rest >= available || one_block.kv_cache == 0) return 0;
  return static_cast<int64_t>((available - rest) / one_block.kv_cache);
}

absl::StatusOr<CapacityPlan> PlanCapacity(const CapacityRequest& request, const ModelConfig& config,
                                          const DeviceRoom& room, MeasureCapacity measure) {
  NUMOE_CHECK(0 < request.sequences_max && request.sequences_max <= limits::kRunningSequencesMax);
  NUMOE_CHECK(room.gpu || (request.gpu_experts.value_or(0) == 0 && IsNever(request.gpu_prefill)));
  Capacity capacity = UsualCapacity(request, config);
  const bool fits_cache = room.gpu && request.kv_tokens == 0;
  if (fits_cache) capacity.model_len = LongestSequence(request, config);
  capacity.gpu_experts = std::min(request.gpu_experts.value_or(0), config.num_experts);
  if (!IsNever(request.gpu_prefill)) RETURN_IF_ERROR(ChooseWindow(config, room.available, measure, capacity));
  if (!request.gpu_experts && room.gpu && config.num_experts > 0)
    RETURN_IF_ERROR(FitExperts(config, room.available, measure, capacity));
  if (fits_cache) RETURN_IF_ERROR(FitCache(request, room.available, measure, capacity));
  CapacityPlan plan{
      .capacity = capacity,
      .grammars = room.gpu ? 0 : limits::kGrammarCacheBytesMax,  // they are in the host's memory
      .available = room.available,
      .gpu = room.gpu,
      .kv_type = request.kv_type,
      .step_tokens = request.step_tokens};
  ASSIGN_OR_RETURN(plan.needs, measure(capacity));
  NUMOE_CHECK(0 < capacity.model_len && capacity.model_len <= plan.kv_tokens())
      << capacity.model_len << " of " << plan.kv_tokens();
  NUMOE_CHECK(plan.gpu || (plan.needs.experts == 0 && plan.needs.windows == 0))
      << "only a GPU holds experts and windows";
  return plan;
}

std::vector<std::string> CapacityPlan::Table() const {
  const double per_token =
      kv_tokens() == 0 ? 0 : static_cast<double>(needs.kv_cache) / static_cast<double>(kv_tokens()) / 1024;
  const auto line = [](const char* name, uint64_t bytes, const std::string& what) {
    return fmt::format("  {:<10}{:>11}  {}", name, MemorySize(bytes), what);
  };
  std::vector<std::string> table = {
      gpu ? "memory plan of the GPU; all of it is reserved now:"
          : "memory plan; weights, KV cache and scratch are reserved now:",
      line("weights", needs.weights, "attention, shared experts, embedding, head"),
      line("KV cache", needs.kv_cache,
           fmt::format("{} tokens of {:.1f} KiB in {}", kv_tokens(), per_token,
                       execution::CacheTypeName(kv_type))),
      line("scratch", needs.scratch, fmt::format("activations of {} tokens, logits", step_tokens))};
  if (capacity.gpu_experts > 0)
    table.push_back(line("experts", needs.experts,
                         fmt::format("{} of each layer, the most used ones", capacity.gpu_experts)));
  if (capacity.window > 0)
    table.push_back(
        line("windows", needs.windows,
             fmt::format("two of {} experts of a layer, fetched for long prompts", capacity.window)));
  if (grammars > 0) table.push_back(line("grammars", grammars, "at most, of later requests"));
  table.push_back(
      line("total", total(), fmt::format("of {} available{}", MemorySize(available), Others(others))));
  return table;
}

absl::Status CapacityPlan::Check() const {
  if (total() <= available) return absl::OkStatus();
  std::string what = fmt::format(
      "{} are available {}{}, but the model takes {}: weights {}, KV cache {}, scratch {}, grammars {}; ",
      MemorySize(available), gpu ? "on the GPU" : "to this process", Others(others), MemorySize(total()),
      MemorySize(needs.weights), MemorySize(needs.kv_cache), MemorySize(needs.scratch), MemorySize(grammars));
  if (capacity.gpu_experts > 0) {
    return absl::ResourceExhaustedError(
        what + fmt::format("experts {}: lower --num-gpu-experts (now {}) or make it auto",
                           MemorySize(needs.experts), capacity.gpu_experts));
  }
  if (capacity.window > 0 && total() - needs.windows <= available) {
    return absl::ResourceExhaustedError(
        what + fmt::format("windows of fetched experts {}: --gpu-prefill-token-threshold=off does without",
                           MemorySize(needs.windows)));
  }
  const uint64_t beside_cache = total() - needs.kv_cache;
  const double share =
      beside_cache < available && needs.kv_cache > 0
          ? static_cast<double>(available - beside_cache) / static_cast<double>(needs.kv_cache)
          : 0;
  const auto fitting = static_cast<int64_t>(share * static_cast<double>(kv_tokens()));
  if (fitting >= 1024) {
    what += fmt::format(
        "--max-total-tokens={} fits (now {}){}", fitting / 256 * 256, kv_tokens(),
        kv_type == execution::CacheType::kBf16 ? ", and with --kv-cache-dtype=fp8_e4m3 more" : "");
  } else {
    what +=
        fmt::format("lower --max-total-tokens (now {}) and --max-num-batched-tokens (now {}){}", kv_tokens(),
                    step_tokens, gpu ? "" : ", or hold the weights in less with --dense-format=int8 or int4");
  }
  return absl::ResourceExhaustedError(what);
}

}  // namespace numoe::startup
