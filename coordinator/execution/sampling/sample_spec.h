// SampleSpec: how to draw a sequence's next token from a row of logits. DrawnToken: the result.
//
// The scheduler fills a spec before the step, because everything that a drawn token depends on, except the
// logits, is known then. A device that draws tokens itself reads the spec (Step::ReadLogits), and returns
// what Sampler and ReadLogprobs return for the same row. Spans and pointers belong to the sequence and are
// valid until its token has been drawn.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/execution/sampling/logprobs.h"
#include "coordinator/execution/sampling/sampler.h"

namespace numoe::execution {

struct SampleSpec {
  SamplingChoice choice;
  int vocab = 0;  // ids that are not below this are never drawn and have no probability
  // How many of the most likely tokens get a log-probability in addition to the drawn one; no token gets one
  // if nullopt.
  std::optional<int> logprobs;
};

struct DrawnToken {
  TokenId token = 0;
  std::vector<TokenLogprobs> logprobs;  // one element if they were requested, else empty
};

/// The token that was drawn from a row; nullopt if the device has not drawn from it, so that its logits are
/// on the host. DATA_LOSS if the row contains NaN or infinity; INTERNAL if no token is allowed.
using DrawnRow = std::optional<absl::StatusOr<DrawnToken>>;

}  // namespace numoe::execution
