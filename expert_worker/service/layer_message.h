// A LayerCall message of gRPC taken apart: what the mailbox's decoder (common/transport/call_codec.h) does
// for shared memory.
//
// Pure function. What a peer can write is checked for its counts and sizes here; layer and experts are the
// executor's to check, because it knows the model.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/layer_call.h"
#include "proto/numoe/v1/expert_worker.pb.h"

namespace numoe::worker {

/// Aligned copies of the message's fields; reused from call to call.
struct LayerMessageBuffers {
  std::vector<float> hidden, weights;
  std::vector<ExpertId> experts;
};

/// A view of `buffers`, valid until they are used again. INVALID_ARGUMENT: the peer does not speak the
/// protocol.
absl::StatusOr<LayerCallView> ReadLayerMessage(const v1::LayerCall& call, int hidden_size,
                                               LayerMessageBuffers& buffers);

}  // namespace numoe::worker
