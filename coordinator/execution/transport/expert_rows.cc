#include "coordinator/execution/transport/expert_rows.h"

#include <fmt/format.h>

#include <algorithm>

#include "absl/types/span.h"
#include "common/base/check.h"

namespace numoe::execution {

void MergeExpertRows(const ExpertRows& one, bool slice_by_expert, ExpertRows& all) {
  NUMOE_CHECK_EQ(one.rows.size(), static_cast<size_t>(one.layers) * static_cast<size_t>(one.experts));
  if (all.rows.empty()) {
    all = one;
    return;
  }
  NUMOE_CHECK(one.layers == all.layers && one.experts == all.experts && one.rows.size() == all.rows.size());
  for (size_t i = 0; i < all.rows.size(); ++i)
    all.rows[i] = slice_by_expert ? all.rows[i] + one.rows[i] : std::max(all.rows[i], one.rows[i]);
}

std::string ExpertRowsJson(const ExpertRows& rows, const std::vector<bool>& layer_is_moe) {
  NUMOE_CHECK(layer_is_moe.size() == static_cast<size_t>(rows.layers));
  const auto experts = static_cast<size_t>(rows.experts);
  NUMOE_CHECK_EQ(rows.rows.size(), layer_is_moe.size() * experts);
  std::string json = "{\"layers\":[";
  const char* separator = "";
  for (size_t layer = 0; layer < layer_is_moe.size(); ++layer) {
    if (!layer_is_moe[layer]) continue;
    const auto of_layer = absl::MakeConstSpan(rows.rows).subspan(layer * experts, experts);
    json += fmt::format("{}{{\"layer\":{},\"rows\":[{}]}}", separator, layer, fmt::join(of_layer, ","));
    separator = ",";
  }
  return json + "]}";
}

}  // namespace numoe::execution
