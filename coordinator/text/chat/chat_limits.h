// Limits of a rendering of a chat template: steps, bytes of output, depth of nesting.
//
// Only constants, with the unit (bytes or a number of things) in the name. Templates come with checkpoints
// and are not trusted; a template that exceeds a limit ends with an error that names the limit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace numoe::limits {

// --- chat templates --------------------------------------------------------------------------------------
inline constexpr int64_t kTemplateStepsMax = 2'000'000;  // a 200-message conversation takes about 20,000
inline constexpr size_t kTemplateOutputBytesMax = 64ull << 20;
inline constexpr int kTemplateDepthMax = 200;

}  // namespace numoe::limits
