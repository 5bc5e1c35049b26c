#include "expert_worker/experts/expert_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>

#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/linear/quantised_rows.h"
#include "common/threading/thread_binding.h"
#include "common/threading/thread_pool.h"
#include "common/topology/topology.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/experts/layer_call_plan.h"
#include "expert_worker/experts/layer_call_run.h"
#include "expert_worker/experts/memory_placement.h"
#include "expert_worker/experts/packed_slice.h"
#include "expert_worker/experts/weight_placement.h"
#include "expert_worker/experts/worker_home.h"
#include "expert_worker/grouping/token_groups.h"

namespace numoe::worker {
namespace {

std::string Percent(std::optional<double> share) {
  return share.has_value() ? fmt::format("{:.0f}%", 100 * *share) : "unknown share";
}

// Loads a slice with the pool's threads, on the nodes of the placement.
using SliceSource = std::function<absl::StatusOr<ExpertSlice>(ThreadPool&, const Placement&)>;

class SliceExecutor final : public ExpertExecutor {
 public:
  SliceExecutor(Placement placement, Isa isa, Precision precision)
      : placement_(std::move(placement)),
        isa_(isa),
        precision_(precision),
        pool_({.name = "expert", .cpus = placement_.cpus}),
        callers_(OfLoneCaller(placement_.cpus), placement_.node_cpus),
        scratch_(pool_.threads()) {}

  absl::Status LoadWeights(const SliceSource& load, const ModelConfig& config, bool local_required) {
    const ScopedThreadBinding binding(
        placement_.cpus);  // this thread packs too, and its pages are allocated where it runs
    ASSIGN_OR_RETURN(slice_, load(pool_, placement_));
    statistics_.emplace(config.num_layers, config.num_experts);
    huge_page_share_ = HugePageShare(slice_.Spans());
    return CheckPlacement(slice_.Spans(), {.nodes = placement_.nodes, .required = local_required});
  }

  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    const auto begin = std::chrono::steady_clock::now();
    if (absl::Status status = Prepare(call, out); !status.ok()) {
      failed_calls_.fetch_add(1, std::memory_order_relaxed);
      return status;
    }
    Compute(call, out);
    const auto end = std::chrono::steady_clock::now();
    statistics_->Count(call.layer, call.tokens, groups_.groups, end - begin, end);
    weight_bytes_used_.fetch_add(groups_.groups.size() * slice_.ExpertBytes(call.layer),
                                 std::memory_order_relaxed);
    return absl::OkStatus();
  }

  const SliceSpec& slice() const override { return slice_.spec; }
  uint64_t WeightBytes() const override { return slice_.bytes; }
  std::string Describe() const override {
    return fmt::format(
        "slice {}/{} by {}, format {}, isa {}, {} thread{} ({}), {:.3f} GiB of weights ({} in huge pages, "
        "{} on its nodes), pinned {}",
        slice_.spec.worker_index, slice_.spec.worker_count,
        slice_.spec.mode == SliceMode::kExpert ? "expert" : "intermediate", slice_.format_names,
        IsaName(isa_), pool_.working(), pool_.working() == 1 ? "" : "s", placement_.why,
        static_cast<double>(slice_.bytes) / (1 << 30), Percent(huge_page_share_),
        Percent(LocalShare(slice_.Spans(), placement_.nodes)), IsPinned() ? "yes" : "no");
  }
  ExecutorStats Stats() const override {
    WeightPlacement::Shares shares = weight_placement_.Find(slice_.Spans(), placement_.nodes);
    return {.failed_calls = failed_calls_.load(),
            .weight_bytes = slice_.bytes,
            .weight_bytes_used = weight_bytes_used_.load(),
            .threads = pool_.working(),
            .pinned = IsPinned(),
            .nodes = placement_.nodes,
            .huge_page_share = huge_page_share_,
            .local_share = shares.local,
            .node_shares = std::move(shares.by_node)};
  }
  const ExpertStatistics& Statistics() const override { return *statistics_; }
  const ExpertSlice& Weights() const override { return slice_; }
  CallerThreads& Callers() override { return callers_; }
  void MoveTo(const std::vector<int>& cpus) override {
    pool_.MoveTo(cpus);
    callers_.MoveTo(OfLoneCaller(cpus));
  }

 private:
  // Unless the CPUs are reserved for workers, a coordinator may compute on the first one, too. Each of the
  // others has a thread of the pool, so the caller may run on any CPU of the node.
  std::vector<int> OfLoneCaller(const std::vector<int>& cpus) const {
    return placement_.own ? std::vector<int>{cpus.front()} : placement_.node_cpus;
  }
  bool IsPinned() const { return pool_.apart() && pool_.bound() && callers_.bound(); }

  absl::Status Prepare(const LayerCallView& call, absl::Span<float> out) {
    RETURN_IF_ERROR(CheckCall(call, out));
    return GroupTokens(call, slice_.owned, groups_);
  }

  void Compute(const LayerCallView& call, absl::Span<float> out) {
    if (groups_.groups.empty()) {
      std::fill(out.begin(), out.end(), 0.0f);
      return;
    }
    const auto layer = static_cast<size_t>(call.layer);
    const LayerCallShape shape{.tokens = call.tokens,
                               .hidden_size = slice_.hidden_size,
                               .width = slice_.width,
                               .formats = slice_.formats[layer],
                               .isa = isa_,
                               .precision = EffectivePrecision(precision_, call.batch_invariant),
                               .threads = pool_.working()};
    PlanLayerCall(groups_.groups, shape, plan_);
    const LayerCallRun run({call, shape, plan_, groups_, slice_.layers[layer]}, scratch_, out);
    pool_.RunPhases(plan_.phase_tasks, [&](int phase, int task, int thread) { run.Do(phase, task, thread); });
  }

  absl::Status CheckCall(const LayerCallView& call, absl::Span<float> out) const {
    const auto bad = [](const std::string& what) {
      return absl::InvalidArgumentError("layer call: " + what);
    };
    const int layers = static_cast<int>(slice_.layers.size());
    if (call.layer < 0 || call.layer >= layers || slice_.layers[call.layer].empty()) {
      return bad(
          fmt::format("layer {} is not one of the model's MoE layers (0 to {})", call.layer, layers - 1));
    }
    if (call.tokens < 1 || call.tokens > limits::kCallTokensMax) {
      return bad(fmt::format("{} tokens, expected 1 to {}", call.tokens, limits::kCallTokensMax));
    }
    if (call.experts_per_token < 1 || call.experts_per_token > limits::kExpertsPerTokenMax) {
      return bad(fmt::format("{} experts per token, expected 1 to {}", call.experts_per_token,
                             limits::kExpertsPerTokenMax));
    }
    const size_t values = static_cast<size_t>(call.tokens) * slice_.hidden_size;
    const size_t entries = static_cast<size_t>(call.tokens) * call.experts_per_token;
    if (call.hidden.size() != values || out.size() != values || call.experts.size() != entries ||
        call.weights.size() != entries) {
      return bad(fmt::format("{} hidden values, {} outputs, {} ids, {} weights; expected {}, {}, {}, {}",
                             call.hidden.size(), out.size(), call.experts.size(), call.weights.size(), values,
                             values, entries, entries));
    }
    return absl::OkStatus();
  }

  const Placement placement_;
  const Isa isa_;
  const Precision precision_;
  ThreadPool pool_;
  CallerThreads callers_;
  ExpertSlice slice_;
  std::optional<double> huge_page_share_;
  WeightPlacement weight_placement_;

  // The state of the call that Execute computes; its memory is reused from call to call.
  TokenGroups groups_;
  LayerCallPlan plan_;
  LayerCallScratch scratch_;

  std::atomic<uint64_t> failed_calls_ = 0;
  std::atomic<uint64_t> weight_bytes_used_ = 0;
  std::optional<ExpertStatistics> statistics_;  // set by LoadWeights
};

absl::StatusOr<std::unique_ptr<ExpertExecutor>> LoadFrom(const SliceSource& source, const ModelConfig& config,
                                                         const ExecutorOptions& options) {
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  std::optional<Placement> home = options.home;
  if (!home) {
    ASSIGN_OR_RETURN(home, FindHome(LimitByQuota(RequestFor(options))));
  }
  auto executor = std::make_unique<SliceExecutor>(*std::move(home), isa, options.precision);
  RETURN_IF_ERROR(executor->LoadWeights(source, config, options.local_required));
  return executor;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertExecutor>> ExpertExecutor::Load(const Checkpoint& checkpoint,
                                                                     const ModelConfig& config,
                                                                     const ExecutorOptions& options) {
  return LoadFrom(
      [&](ThreadPool& pool, const Placement& placement) {
        LoadOptions load{.progress = options.progress, .memory = options.memory, .nodes = placement.nodes};
        load.local_required = options.local_required;
        load.ask_for_memory = options.ask_for_memory;
        return LoadSlice(checkpoint, config, options.slice, options.format, pool, load);
      },
      config, options);
}

absl::StatusOr<std::unique_ptr<ExpertExecutor>> ExpertExecutor::LoadPacked(const PackedModel& model,
                                                                           const ExecutorOptions& options) {
  return LoadFrom(
      [&](ThreadPool& pool, const Placement& placement) {
        return LoadPackedSlice(model, options.slice, options.format, pool,
                               {.map = options.map_packed,
                                .nodes = placement.nodes,
                                .local_required = options.local_required,
                                .memory = options.memory,
                                .progress = options.progress,
                                .ask_for_memory = options.ask_for_memory});
      },
      model.config, options);
}

}  // namespace numoe::worker
