// Any message of a peer over gRPC: a call is accepted only if all its spans have the sizes of its counts.
#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/transport/transport_limits.h"
#include "expert_worker/service/layer_message.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kHidden = 4;
  numoe::v1::LayerCall call;
  if (!call.ParseFromArray(data, static_cast<int>(size))) return 0;
  static numoe::worker::LayerMessageBuffers buffers;  // still contains values of the last message
  const auto view = numoe::worker::ReadLayerMessage(call, kHidden, buffers);
  if (!view.ok()) {
    NUMOE_CHECK(absl::IsInvalidArgument(view.status()));
    NUMOE_CHECK_LT(view.status().message().size(), 200u);
    return 0;
  }
  NUMOE_CHECK(view->tokens >= 1 && view->tokens <= numoe::limits::kCallTokensMax);
  NUMOE_CHECK(view->experts_per_token >= 1 && view->experts_per_token <= numoe::limits::kExpertsPerTokenMax);
  NUMOE_CHECK(view->deferred_experts >= 0 && view->deferred_experts < view->experts_per_token);
  NUMOE_CHECK(view->deferred_experts == 0 || view->tokens <= numoe::limits::kDeferringTokensMax);
  const auto entries = static_cast<size_t>(view->tokens) * static_cast<size_t>(view->experts_per_token);
  NUMOE_CHECK_EQ(view->hidden.size(), static_cast<size_t>(view->tokens) * kHidden);
  NUMOE_CHECK(view->experts.size() == entries && view->weights.size() == entries);
  return 0;
}
