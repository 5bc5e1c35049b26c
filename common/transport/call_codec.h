// Layer calls and replies as bytes in a mailbox slot.
//
// The layout is defined in call_layout.h. A decoder copies the descriptor and the ids once and checks the
// copies, because the peer can change shared memory at any time, so what was checked must not be read again.
// Pure functions; fuzzed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/layer_call.h"

namespace numoe {

inline constexpr uint32_t kProtocolVersion = 7;

struct CallShape {
  int hidden_size = 0;
  int num_experts = 0;
};

/// A decoded request. `view` refers to the slot for hidden, and to the copies below for ids and weights.
struct DecodedCall {
  uint64_t call_id = 0;
  LayerCallView view;
  std::vector<ExpertId> experts;
  std::vector<float> weights;
};

size_t RequestBytes(int tokens, int experts_per_token, int hidden_size);
size_t ReplyBytes(int tokens, int hidden_size);
/// Returns the limit for the size of a gRPC message if a call's arrays have `call_bytes`.
int MessageBytesMax(size_t call_bytes);

/// Writes the request and returns its length. REQUIRES: the slot is large enough (RequestBytes).
size_t EncodeRequest(uint64_t call_id, const LayerCallView& call, absl::Span<std::byte> slot);
/// INVALID_ARGUMENT names what is wrong: length, tokens, experts per token, ids or alignment.
absl::Status DecodeRequest(absl::Span<const std::byte> message, const CallShape& shape, DecodedCall& out);

/// Returns where a reply's partial sums are in the slot. Write them first, and call EncodeReply afterwards.
absl::Span<float> ReplyPartial(absl::Span<std::byte> slot, int tokens, int hidden_size);
size_t EncodeReply(uint64_t call_id, const absl::Status& status, int tokens, int hidden_size,
                   absl::Span<std::byte> slot);
/// Returns the partial sums of the reply to `call_id`, in place, or the worker's error. INVALID_ARGUMENT for
/// a malformed reply.
absl::StatusOr<absl::Span<const float>> DecodeReply(absl::Span<const std::byte> message, uint64_t call_id,
                                                    size_t values);

}  // namespace numoe
