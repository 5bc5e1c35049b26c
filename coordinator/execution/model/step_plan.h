// Flattens what the scheduler asked for into the arrays that a device runs on.
//
// Pure: the same batch gives the same layout. A batch that breaks the scheduler's promises (no tokens, too
// few blocks, a block twice) is a broken invariant, so it CHECKs.
#pragma once

#include "coordinator/execution/device/step_layout.h"
#include "coordinator/execution/model/model.h"

namespace numoe::execution {

/// REQUIRES: every sequence has tokens, and blocks for position + tokens.
StepLayout PlanStep(const StepBatch& batch, const ModelOptions& options);

}  // namespace numoe::execution
