#include "coordinator/startup/prompt_fetching.h"

#include <fmt/format.h>

#include <climits>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/status.h"

namespace numoe::startup {

FetchingPlan PlanFetching(const execution::WorkerPace& pace, double fetch_s, int step_tokens) {
  NUMOE_CHECK(fetch_s >= 0 && step_tokens > 0) << fetch_s << " s, steps of " << step_tokens;
  return {.fetch_s = fetch_s,
          .pace = pace,
          .step_tokens = step_tokens,
          .tokens = execution::ChooseFetchThreshold(pace, fetch_s)};
}

std::string FetchingPlan::ToString() const {
  return fmt::format(
      "the GPU fetches a layer's experts in {:.1f} ms, the workers compute a layer in {:.2f} ms plus {:.1f} "
      "us for each token: {}",
      fetch_s * 1e3, pace.call_s * 1e3, pace.token_s * 1e6,
      tokens > step_tokens
          ? fmt::format("prompts stay with the workers, as no step has {} tokens (--max-num-batched-tokens)",
                        tokens)
          : fmt::format("prompts of {} tokens and more are computed by the GPU", tokens));
}

absl::Status FetchLongPrompts(const CapacityRequest& request, const ModelConfig& config,
                              execution::ExpertBackend& experts, execution::Device& device) {
  NUMOE_CHECK(!IsNever(request.gpu_prefill) && config.num_experts > 0);
  const auto* const from = std::get_if<FromTokens>(&request.gpu_prefill);
  const absl::Status fetching = device.FetchExperts(from != nullptr ? from->tokens : INT_MAX);
  // Workers that share nothing are not an error of the device: other workers may replace them.
  if (absl::IsUnavailable(fetching))
    LogWarning("--gpu-prefill-token-threshold: prompts stay with the workers: {}",
               std::string(fetching.message()));
  if (!fetching.ok() || from != nullptr) return absl::OkStatus();
  ASSIGN_OR_RETURN(const double fetch_s, device.MeasureFetchSeconds());
  ASSIGN_OR_RETURN(const execution::WorkerPace pace,
                   execution::MeasureWorkerPace(experts, config, request.step_tokens));
  const FetchingPlan plan = PlanFetching(pace, fetch_s, request.step_tokens);
  LogInfo("{}", plan.ToString());
  return device.FetchExperts(plan.tokens);
}

}  // namespace numoe::startup
