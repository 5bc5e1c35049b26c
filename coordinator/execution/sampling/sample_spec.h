// SampleSpec: how a sequence's next token is to be drawn from a row of logits; DrawnToken: what came of it.
//
// The scheduler fills a spec before the step, because all that a draw hangs on but the logits is known then:
// a device that draws by itself reads it (Step::ReadLogits), and gives what Sampler and ReadLogprobs give
// for the same row. Spans and pointers are the sequence's and hold until its token has been taken.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/execution/sampling/logprobs.h"
#include "coordinator/execution/sampling/sampler.h"

namespace numoe::execution {

struct SampleSpec {
  SamplingChoice choice;
  int vocab = 0;                // ids from here on are never drawn and have no probability
  std::optional<int> logprobs;  // the token's own and of so many most likely ones; none: nothing
};

struct DrawnToken {
  TokenId token = 0;
  std::vector<TokenLogprobs> logprobs;  // one if they were asked for
};

/// Of one row; none: it was not drawn from where the model ran, and its logits are on the host. DATA_LOSS:
/// NaN or infinity in the row; INTERNAL: no token may come.
using DrawnRow = std::optional<absl::StatusOr<DrawnToken>>;

}  // namespace numoe::execution
