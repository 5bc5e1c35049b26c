#include "expert_worker/grouping/token_groups.h"

#include <fmt/format.h>

#include "common/base/check.h"

namespace numoe::worker {

absl::Status GroupTokens(const LayerCallView& call, const std::vector<bool>& owned, TokenGroups& out) {
  NUMOE_CHECK_EQ(call.experts.size(), call.weights.size());
  const int experts = static_cast<int>(owned.size());
  out.groups.clear();
  out.counts.assign(owned.size(), 0);
  out.last_token.assign(owned.size(), -1);
  int rows = 0;
  for (size_t i = 0; i < call.experts.size(); ++i) {
    const ExpertId expert = call.experts[i];
    const int token = static_cast<int>(i / static_cast<size_t>(call.experts_per_token));
    if (expert == kNoExpert) continue;
    if (expert < 0 || expert >= experts) {
      return absl::InvalidArgumentError(fmt::format("layer {} token {}: expert id {}, expected 0 to {}",
                                                    call.layer, token, expert, experts - 1));
    }
    if (out.last_token[expert] == token) {
      return absl::InvalidArgumentError(fmt::format(
          "layer {} token {}: expert id {} twice, expected distinct ids", call.layer, token, expert));
    }
    out.last_token[expert] = token;
    if (owned[expert]) {
      ++out.counts[expert];
      ++rows;
    }
  }
  out.tokens.resize(rows);
  out.weights.resize(rows);
  int begin = 0;
  for (ExpertId expert = 0; expert < experts; ++expert) {
    if (out.counts[expert] == 0) continue;
    out.groups.push_back({expert, begin, out.counts[expert]});
    begin += out.counts[expert];
    out.counts[expert] = out.groups.back().row_begin;  // from here on this is the expert's next free row
  }
  NUMOE_CHECK_EQ(begin, rows) << "every row must belong to a group";
  for (size_t i = 0; i < call.experts.size(); ++i) {
    const ExpertId expert = call.experts[i];
    if (expert == kNoExpert || !owned[expert]) continue;
    const int row = out.counts[expert]++;
    out.tokens[row] = static_cast<int>(i / static_cast<size_t>(call.experts_per_token));
    out.weights[row] = call.weights[i];
  }
  return absl::OkStatus();
}

}  // namespace numoe::worker
