#include "coordinator/execution/transport/local_backend.h"

#include "common/base/check.h"
#include "common/base/status.h"

namespace numoe::execution {

absl::Status LocalBackend::Start(const LayerCallView& call) {
  NUMOE_CHECK_EQ(call.experts.size(),
                 static_cast<size_t>(call.tokens) * static_cast<size_t>(call.experts_per_token));
  call_.Split(call);
  return absl::OkStatus();
}

absl::Status LocalBackend::Finish(absl::Span<float> out) {
  NUMOE_CHECK_EQ(out.size(), call_.part(ReplyPart::kImmediate).hidden.size());
  partial_.resize(out.size());
  for (LayerExecutor* executor : executors_) {
    RETURN_IF_ERROR(executor->Execute(call_.part(ReplyPart::kImmediate), absl::MakeSpan(partial_)));
    for (size_t i = 0; i < out.size(); ++i) out[i] += partial_[i];
  }
  const LayerCallView& deferred = call_.part(ReplyPart::kDeferred);
  deferred_.resize(executors_.size());
  for (size_t e = 0; deferred.tokens > 0 && e < executors_.size(); ++e) {
    deferred_[e].resize(out.size());
    RETURN_IF_ERROR(executors_[e]->Execute(deferred, absl::MakeSpan(deferred_[e])));
  }
  return absl::OkStatus();
}

absl::Status LocalBackend::FinishDeferred(absl::Span<float> out) {
  for (const std::vector<float>& partial : deferred_) {
    NUMOE_CHECK_EQ(partial.size(), out.size());
    for (size_t i = 0; i < out.size(); ++i) out[i] += partial[i];
  }
  return absl::OkStatus();
}

}  // namespace numoe::execution
