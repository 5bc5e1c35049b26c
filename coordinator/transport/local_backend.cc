#include "coordinator/transport/local_backend.h"

#include "common/base/status.h"

namespace numoe {

absl::Status LocalBackend::Start(const ExpertCall& call) {
  call_ = {.layer = call.layer,
           .tokens = call.tokens,
           .experts_per_token = call.experts_per_token,
           .exact = call.exact,
           .hidden = call.hidden,
           .experts = call.experts,
           .weights = call.weights};
  return absl::OkStatus();
}

absl::Status LocalBackend::Finish(absl::Span<float> out) {
  partial_.resize(out.size());
  for (LayerExecutor* executor : executors_) {
    RETURN_IF_ERROR(executor->Execute(call_, absl::MakeSpan(partial_)));
    for (size_t i = 0; i < out.size(); ++i) out[i] += partial_[i];
  }
  return absl::OkStatus();
}

}  // namespace numoe
