// The operations of one step in host memory.
//
// Every operation is synchronous and is divided over one thread pool by output, so results do not depend on
// the number of threads. The operations only store data of this step: the halves' layouts, and the plans of
// attention, which are made for the first layer. One thread, the engine's.
#pragma once

#include <memory>

#include "coordinator/execution/device/cpu/cpu_parts.h"
#include "coordinator/execution/device/operations.h"
#include "coordinator/execution/device/step_layout.h"

namespace numoe::execution {

/// `layout` must outlive the operations. REQUIRES: it has at most as many rows as the store's tensors.
std::unique_ptr<Operations> MakeCpuOperations(const StepLayout& layout, const CpuParts& parts);

}  // namespace numoe::execution
