#include "coordinator/execution/device/cuda/staged_exchange.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"

namespace numoe::execution::cuda {
namespace {

// Returns the values of a call's rows, in memory that has `width` values for each row of a step.
template <typename T>
absl::Span<T> RowsIn(std::byte* memory, const RoutedCall& call, int width) {
  const auto first = static_cast<size_t>(call.first), tokens = static_cast<size_t>(call.tokens);
  return {reinterpret_cast<T*>(memory) + first * static_cast<size_t>(width),
          tokens * static_cast<size_t>(width)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<StagedExchange>> StagedExchange::Create(int rows_max, Runtime& runtime,
                                                                       Stream stream) {
  auto exchange = std::unique_ptr<StagedExchange>(new StagedExchange(rows_max, runtime, stream));
  ASSIGN_OR_RETURN(exchange->ready_, runtime.NewEvent());
  return exchange;
}

absl::Status StagedExchange::Reserve(const RoutedCall& call) {
  const auto host = [&](std::unique_ptr<Memory>& memory, size_t row_bytes) -> absl::Status {
    const size_t bytes = row_bytes * static_cast<size_t>(rows_max_);
    if (memory != nullptr && memory->bytes() >= bytes) return absl::OkStatus();
    ASSIGN_OR_RETURN(memory, runtime_.AllocateHost(bytes));
    return absl::OkStatus();
  };
  const size_t hidden = static_cast<size_t>(call.hidden_size) * sizeof(float);
  const size_t entries = static_cast<size_t>(call.experts_per_token) * sizeof(float);
  RETURN_IF_ERROR(host(hidden_, hidden));
  RETURN_IF_ERROR(host(sums_, hidden));
  if (call.deferred_experts > 0) RETURN_IF_ERROR(host(deferred_, hidden));
  RETURN_IF_ERROR(host(routes_, entries));
  return host(weights_, entries);
}

void StagedExchange::Stage(const RoutedCall& call) {
  NUMOE_CHECK(call.first >= 0 && call.first + call.tokens <= rows_max_);
  reserved_ = Reserve(call);
  if (!reserved_.ok()) return;
  const absl::Span<float> hidden = RowsIn<float>(hidden_->device(), call, call.hidden_size);
  LaunchConvert(call.hidden, hidden.data(), static_cast<int64_t>(hidden.size()), stream_);
  const absl::Span<ExpertId> routes = RowsIn<ExpertId>(routes_->host(), call, call.experts_per_token);
  runtime_.Copy(routes.data(), call.experts, routes.size() * sizeof(ExpertId), stream_);
  const absl::Span<float> weights = RowsIn<float>(weights_->host(), call, call.experts_per_token);
  runtime_.Copy(weights.data(), call.weights, weights.size() * sizeof(float), stream_);
  runtime_.Record(ready_, stream_);
}

absl::Status StagedExchange::Start(const RoutedCall& call) {
  NUMOE_CHECK(experts_ != nullptr)
      << "ConnectExperts must be called before the first step with routed experts";
  RETURN_IF_ERROR(reserved_);
  RETURN_IF_ERROR(runtime_.Await(ready_));
  return experts_->Start({.layer = call.layer,
                          .tokens = call.tokens,
                          .experts_per_token = call.experts_per_token,
                          .deferred_experts = call.deferred_experts,
                          .batch_invariant = call.exact,
                          .hidden = RowsIn<const float>(hidden_->host(), call, call.hidden_size),
                          .experts = RowsIn<const ExpertId>(routes_->host(), call, call.experts_per_token),
                          .weights = RowsIn<const float>(weights_->host(), call, call.experts_per_token)});
}

// Returns the call's rows of sums, set to zero. Their old contents were added before these rows were staged
// again, and Start has waited for that.
absl::Span<float> StagedExchange::Cleared(const RoutedCall& call, const Memory& sums) const {
  const absl::Span<float> cleared = RowsIn<float>(sums.host(), call, call.hidden_size);
  std::fill(cleared.begin(), cleared.end(), 0.0f);
  return cleared;
}

void StagedExchange::EnqueueAdd(absl::Span<const float> sums, const Memory& memory, float* residual) {
  const auto* host = reinterpret_cast<const float*>(memory.host());
  const float* device = reinterpret_cast<const float*>(memory.device()) + (sums.data() - host);
  LaunchAdd(residual, device, static_cast<int64_t>(sums.size()), stream_);
}

absl::Status StagedExchange::Finish(const RoutedCall& call, float* residual) {
  const absl::Span<float> sums = Cleared(call, *sums_);
  RETURN_IF_ERROR(experts_->Finish(sums));
  EnqueueAdd(sums, *sums_, residual);
  return absl::OkStatus();
}

absl::Status StagedExchange::FinishDeferred(const RoutedCall& call, float* residual) {
  const absl::Span<float> sums = Cleared(call, *deferred_);
  RETURN_IF_ERROR(experts_->FinishDeferred(sums));
  EnqueueAdd(sums, *deferred_, residual);
  return absl::OkStatus();
}

}  // namespace numoe::execution::cuda
