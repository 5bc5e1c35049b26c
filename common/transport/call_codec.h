// Layer calls and replies as bytes in a mailbox slot.
//
// The layout is call_layout.h's. A decoder copies the descriptor and the ids once and checks the copies: the
// peer can change shared memory at any time, so what was checked must not be read again. Pure functions;
// fuzzed.
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

/// A decoded request: `view` points at the slot for hidden and at the copies below for ids and weights.
struct DecodedCall {
  uint64_t call_id = 0;
  LayerCallView view;
  std::vector<ExpertId> experts;
  std::vector<float> weights;
};

size_t RequestBytes(int tokens, int experts_per_token, int hidden_size);
size_t ReplyBytes(int tokens, int hidden_size);
/// What gRPC may take in at once where a call's arrays have `call_bytes`.
int MessageBytesMax(size_t call_bytes);

/// Returns the length. REQUIRES: slot is large enough (RequestBytes).
size_t EncodeRequest(uint64_t call_id, const LayerCallView& call, absl::Span<std::byte> slot);
/// INVALID_ARGUMENT names what is wrong: length, tokens, places, ids, alignment.
absl::Status DecodeRequest(absl::Span<const std::byte> message, const CallShape& shape, DecodedCall& out);

/// Where a reply's partial sums go in the slot; write them, then EncodeReply.
absl::Span<float> ReplyPartial(absl::Span<std::byte> slot, int tokens, int hidden_size);
size_t EncodeReply(uint64_t call_id, const absl::Status& status, int tokens, int hidden_size,
                   absl::Span<std::byte> slot);
/// The partial sums of the reply to `call_id`, in place; the worker's error; or INVALID_ARGUMENT for a
/// malformed reply.
absl::StatusOr<absl::Span<const float>> DecodeReply(absl::Span<const std::byte> message, uint64_t call_id,
                                                    size_t values);

}  // namespace numoe
