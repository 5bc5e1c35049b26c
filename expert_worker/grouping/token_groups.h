// Groups a layer call's tokens by expert, so that each expert's weights are read only once, no matter how
// many tokens selected it.
//
// A pure function of the call and of the set of experts that this slice computes; the caller reuses the
// buffers from call to call. Groups are in ascending order of experts and rows in ascending order of tokens,
// so that the order of additions, and with it every sum, is the same in every run.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "common/transport/layer_call.h"

namespace numoe::worker {

struct ExpertGroup {
  ExpertId expert = 0;
  int row_begin = 0;  // rows [row_begin, row_begin + rows) of TokenGroups
  int rows = 0;
};

struct TokenGroups {
  std::vector<ExpertGroup> groups;
  std::vector<int> tokens;      // [rows] the row's token
  std::vector<float> weights;   // [rows] the weight of the row's result in the token's sum
  std::vector<int> counts;      // [experts] scratch
  std::vector<int> last_token;  // [experts] scratch
};

/// Returns INVALID_ARGUMENT, with the token and the expert's id, if an id is neither in [0, experts) nor
/// kNoExpert, or if a token selects an expert twice (so an expert has at most one row for each token).
/// `owned[e]`: this slice computes expert e. REQUIRES: call.experts and call.weights have the same size.
absl::Status GroupTokens(const LayerCallView& call, const std::vector<bool>& owned, TokenGroups& out);

}  // namespace numoe::worker
