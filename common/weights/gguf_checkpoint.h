// A Checkpoint on a GGUF model: tensors under the names and in the shapes that the engine asks for.
//
// Routed experts come out of blk.N.ffn_{gate,up,down}_exps ([experts, rows, cols], one tensor for all), of
// blk.N.ffn_gate_up_exps (gate's rows, then up's), or of one tensor for each expert (blk.N.ffn_gate.E).
// Blocks are checked for finite weights when they are packed, not here: their scales lie between the weights,
// and looking at them would read the whole file. Errors and threads are Checkpoint's.
#pragma once

#include <memory>

#include "common/weights/checkpoint.h"
#include "common/weights/gguf_model.h"

namespace numoe {

std::unique_ptr<Checkpoint> MakeGgufCheckpoint(std::unique_ptr<GgufModel> model);

}  // namespace numoe
