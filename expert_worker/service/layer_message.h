// Decodes a LayerCall message of gRPC, as common/transport/call_codec.h decodes one in a mailbox.
//
// A pure function. The counts and sizes, which a peer can set to anything, are checked here. The layer and
// the experts are checked by the executor, because it knows the model.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "common/transport/layer_call.h"
#include "proto/numoe/v1/expert_worker.pb.h"

namespace numoe::worker {

/// Aligned copies of the message's fields. The memory is reused from call to call.
struct LayerMessageBuffers {
  std::vector<float> hidden, weights;
  std::vector<ExpertId> experts;
};

/// Returns a view of `buffers`, valid until they are used again. INVALID_ARGUMENT if the peer does not follow
/// the protocol.
absl::StatusOr<LayerCallView> ReadLayerMessage(const v1::LayerCall& call, int hidden_size,
                                               LayerMessageBuffers& buffers);

}  // namespace numoe::worker
