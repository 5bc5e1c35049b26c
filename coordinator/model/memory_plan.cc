#include "coordinator/model/memory_plan.h"

#include <fmt/format.h>

#include "common/base/memory_size.h"

namespace numoe {
namespace {

std::string Others(const std::string& others) { return others.empty() ? "" : fmt::format(" ({})", others); }

}  // namespace

int64_t FittingCacheBlocks(const DeviceMemory& one_block, uint64_t available) {
  const uint64_t rest = one_block.total() - one_block.kv_cache;
  if (rest >= available || one_block.kv_cache == 0) return 0;
  return static_cast<int64_t>((available - rest) / one_block.kv_cache);
}

std::vector<std::string> MemoryPlan::Table() const {
  const double per_token =
      kv_tokens == 0 ? 0 : static_cast<double>(needs.kv_cache) / static_cast<double>(kv_tokens) / 1024;
  const auto line = [](const char* name, uint64_t bytes, const std::string& what) {
    return fmt::format("  {:<10}{:>11}  {}", name, MemorySize(bytes), what);
  };
  std::vector<std::string> table = {
      gpu ? "memory plan of the GPU; all of it is reserved now:"
          : "memory plan; weights, KV cache and scratch are reserved now:",
      line("weights", needs.weights, "attention, shared experts, embedding, head"),
      line("KV cache", needs.kv_cache,
           fmt::format("{} tokens of {:.1f} KiB in {}", kv_tokens, per_token, CacheTypeName(kv_type))),
      line("scratch", needs.scratch, fmt::format("activations of {} tokens, logits", step_tokens))};
  if (gpu_experts > 0)
    table.push_back(
        line("experts", needs.experts, fmt::format("{} of each layer, the most used ones", gpu_experts)));
  if (window > 0)
    table.push_back(line("windows", needs.windows,
                         fmt::format("two of {} experts of a layer, fetched for long prompts", window)));
  if (grammars > 0) table.push_back(line("grammars", grammars, "at most, of requests to come"));
  table.push_back(
      line("total", total(), fmt::format("of {} available{}", MemorySize(available), Others(others))));
  return table;
}

absl::Status MemoryPlan::Check() const {
  if (total() <= available) return absl::OkStatus();
  std::string what = fmt::format(
      "{} are available {}{}, but the model takes {}: weights {}, KV cache {}, scratch {}, grammars {}; ",
      MemorySize(available), gpu ? "on the GPU" : "to this process", Others(others), MemorySize(total()),
      MemorySize(needs.weights), MemorySize(needs.kv_cache), MemorySize(needs.scratch), MemorySize(grammars));
  if (gpu_experts > 0) {
    return absl::ResourceExhaustedError(
        what + fmt::format("experts {}: lower --num-gpu-experts (now {}) or make it auto",
                           MemorySize(needs.experts), gpu_experts));
  }
  if (window > 0 && total() - needs.windows <= available) {
    return absl::ResourceExhaustedError(
        what + fmt::format("windows of fetched experts {}: --gpu-prefill-token-threshold=off does without",
                           MemorySize(needs.windows)));
  }
  const uint64_t beside_cache = total() - needs.kv_cache;
  const double share =
      beside_cache < available && needs.kv_cache > 0
          ? static_cast<double>(available - beside_cache) / static_cast<double>(needs.kv_cache)
          : 0;
  const auto fitting = static_cast<int64_t>(share * static_cast<double>(kv_tokens));
  if (fitting >= 1024) {
    what += fmt::format("--max-total-tokens={} fits (now {}){}", fitting / 256 * 256, kv_tokens,
                        kv_type == CacheType::kBf16 ? ", and with --kv-cache-dtype=fp8_e4m3 more" : "");
  } else {
    what +=
        fmt::format("lower --max-total-tokens (now {}) and --max-num-batched-tokens (now {}){}", kv_tokens,
                    step_tokens, gpu ? "" : ", or hold the weights in less with --dense-format=int8 or int4");
  }
  return absl::ResourceExhaustedError(what);
}

}  // namespace numoe
