// Groups a layer call's tokens by expert, so that each expert's weights are read once however many tokens
// want it.
//
// Pure function of the call and of which experts this slice owns; buffers are reused from call to call.
// Groups are in ascending expert order and rows in ascending token order, so sums over them are the same in
// every run.
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
  std::vector<int> tokens;      // [rows] token of each row
  std::vector<float> weights;   // [rows] its combine weight
  std::vector<int> counts;      // [experts] scratch
  std::vector<int> last_token;  // [experts] scratch
};

/// InvalidArgument names the token and the id when one lies outside [0, experts) and is not kNoExpert, or is
/// twice in a token (so an expert has at most one row for each token). `owned[e]`: this slice computes e.
/// REQUIRES: experts and weights are of equal size.
absl::Status GroupTokens(const LayerCallView& call, const std::vector<bool>& owned, TokenGroups& out);

}  // namespace numoe::worker
