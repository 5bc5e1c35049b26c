// PlanStep: flattens the scheduler's batch into the arrays that a device computes with.
//
// Pure: the same batch gives the same layout. A batch that breaks an invariant of the scheduler (a sequence
// without tokens, too few blocks, a block that the cache does not have) CHECKs.
#pragma once

#include "coordinator/execution/device/step_layout.h"
#include "coordinator/execution/model/model.h"

namespace numoe::execution {

/// REQUIRES: every sequence has tokens, and blocks for position + tokens.
StepLayout PlanStep(const StepBatch& batch, const ModelOptions& options);

}  // namespace numoe::execution
