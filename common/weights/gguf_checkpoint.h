// A Checkpoint of a GGUF model: tensors under the names and in the shapes that the engine asks for.
//
// Routed experts are read from blk.N.ffn_{gate,up,down}_exps ([experts, rows, cols], one tensor for all),
// from blk.N.ffn_gate_up_exps (gate's rows, then up's), or from one tensor for each expert
// (blk.N.ffn_gate.E). Whether blocks contain finite weights is checked when they are packed, not here,
// because their scales are between the weights, and reading them would read the whole file. Errors and
// threads are as for Checkpoint.
#pragma once

#include <memory>

#include "common/weights/checkpoint.h"
#include "common/weights/gguf_model.h"

namespace numoe {

std::unique_ptr<Checkpoint> MakeGgufCheckpoint(std::unique_ptr<GgufModel> model);

}  // namespace numoe
