#include "expert_worker/service/layer_message.h"

#include <fmt/format.h>

#include <cstring>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/transport/transport_limits.h"

namespace numoe::worker {
namespace {

// Copies a bytes field of fp32 or int32 values. Returns false if its length is not `count` values.
template <typename T>
bool CopyValues(const std::string& bytes, size_t count, std::vector<T>& out) {
  static_assert(sizeof(T) == 4);
  if (bytes.size() != count * sizeof(T)) return false;
  out.resize(count);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return true;
}

}  // namespace

absl::StatusOr<LayerCallView> ReadLayerMessage(const v1::LayerCall& call, int hidden_size,
                                               LayerMessageBuffers& buffers) {
  NUMOE_CHECK_GT(hidden_size, 0);
  if (call.tokens() < 1 || call.tokens() > limits::kCallTokensMax || call.experts_per_token() < 1 ||
      call.experts_per_token() > limits::kExpertsPerTokenMax) {
    return absl::InvalidArgumentError(
        fmt::format("layer call: {} tokens with {} experts each, expected 1 to {} and 1 to {}", call.tokens(),
                    call.experts_per_token(), limits::kCallTokensMax, limits::kExpertsPerTokenMax));
  }
  const bool defers = call.deferred_experts() != 0;
  if (defers && (call.deferred_experts() < 0 || call.deferred_experts() >= call.experts_per_token() ||
                 call.tokens() > limits::kDeferringTokensMax)) {
    return absl::InvalidArgumentError(
        fmt::format("layer call: {} deferred of {} experts for {} tokens, expected 0 to {} for at most {}",
                    call.deferred_experts(), call.experts_per_token(), call.tokens(),
                    call.experts_per_token() - 1, limits::kDeferringTokensMax));
  }
  const size_t values = static_cast<size_t>(call.tokens()) * static_cast<size_t>(hidden_size);
  const size_t entries = static_cast<size_t>(call.tokens()) * static_cast<size_t>(call.experts_per_token());
  if (!CopyValues(call.hidden(), values, buffers.hidden) ||
      !CopyValues(call.experts(), entries, buffers.experts) ||
      !CopyValues(call.weights(), entries, buffers.weights)) {
    return absl::InvalidArgumentError(
        fmt::format("layer call: {} + {} + {} bytes, expected {} + {} + {}", call.hidden().size(),
                    call.experts().size(), call.weights().size(), values * 4, entries * 4, entries * 4));
  }
  return LayerCallView{.instance = call.instance(),
                       .layer = call.layer(),
                       .tokens = call.tokens(),
                       .experts_per_token = call.experts_per_token(),
                       .deferred_experts = call.deferred_experts(),
                       .batch_invariant = call.exact(),
                       .hidden = buffers.hidden,
                       .experts = buffers.experts,
                       .weights = buffers.weights};
}

}  // namespace numoe::worker
