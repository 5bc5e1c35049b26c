#include "coordinator/execution/model/hot_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "common/weights/mapped_file.h"

namespace numoe::execution {
namespace {

constexpr int64_t kHeatFileBytesMax = 16 << 20;  // 61 layers of 384 experts take 0.3 MB

}  // namespace

void ExpertHeat::Add(absl::Span<const uint32_t> counts, double seconds) {
  NUMOE_CHECK_EQ(counts.size(), heat_.size());
  const double kept = std::exp2(-seconds / half_life_s_);
  for (size_t i = 0; i < heat_.size(); ++i) heat_[i] = heat_[i] * kept + counts[i];
}

absl::Status ExpertHeat::Save(const std::string& path) const {
  const std::string fresh = path + ".new";
  std::ofstream file(fresh);
  file << nlohmann::json{{"experts", experts_}, {"heat", heat_}};
  file.close();
  if (file && std::rename(fresh.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::InternalError(
      fmt::format("{}: the file cannot be written; check its folder's permissions and free space", path));
}

absl::Status ExpertHeat::Load(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, kHeatFileBytesMax));
  ASSIGN_OR_RETURN(const nlohmann::json json, ParseStrictJson(text, path));
  const bool shaped = json.is_object() && json.contains("heat") && json["heat"].is_array() &&
                      json["heat"].size() == heat_.size() && json.value("experts", 0) == experts_;
  const auto usable = [](const nlohmann::json& value) {
    return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
  };
  if (!shaped || !std::all_of(json["heat"].begin(), json["heat"].end(), usable)) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: expected an object with \"heat\", {} numbers of at least 0, and \"experts\" {}; remove "
        "the file to begin without measured heat",
        path, heat_.size(), experts_));
  }
  json["heat"].get_to(heat_);
  return absl::OkStatus();
}

std::vector<ExpertSwap> PlanSwaps(const ExpertHeat& heat, const std::vector<std::vector<ExpertId>>& held) {
  std::vector<ExpertSwap> swaps;
  for (LayerId layer = 0; layer < static_cast<LayerId>(held.size()); ++layer) {
    const std::vector<ExpertId>& slots = held[static_cast<size_t>(layer)];
    const auto heat_of = [&](ExpertId expert) { return expert == kNoExpert ? -1.0 : heat.At(layer, expert); };
    std::vector<ExpertId> outside;
    for (ExpertId expert = 0; expert < heat.experts(); ++expert) {
      if (std::find(slots.begin(), slots.end(), expert) == slots.end()) outside.push_back(expert);
    }
    const auto empty = static_cast<size_t>(std::count(slots.begin(), slots.end(), kNoExpert));
    NUMOE_CHECK_EQ(outside.size() + slots.size() - empty, static_cast<size_t>(heat.experts()))
        << "layer " << layer << " has an expert in two slots, or one that the model does not have";
    std::stable_sort(outside.begin(), outside.end(),
                     [&](ExpertId a, ExpertId b) { return heat_of(a) > heat_of(b); });
    std::vector<int> coldest(slots.size());
    std::iota(coldest.begin(), coldest.end(), 0);
    std::stable_sort(coldest.begin(), coldest.end(), [&](int a, int b) {
      return heat_of(slots[static_cast<size_t>(a)]) < heat_of(slots[static_cast<size_t>(b)]);
    });
    for (size_t i = 0; i < std::min(outside.size(), coldest.size()); ++i) {
      const double comes = heat_of(outside[i]), goes = heat_of(slots[static_cast<size_t>(coldest[i])]);
      if (goes >= 0 && comes <= goes * kSwapGain) break;
      swaps.push_back(
          {.layer = layer, .slot = coldest[i], .expert = outside[i], .gain = comes - std::max(goes, 0.0)});
    }
  }
  std::stable_sort(swaps.begin(), swaps.end(),
                   [](const ExpertSwap& a, const ExpertSwap& b) { return a.gain > b.gain; });
  return swaps;
}

}  // namespace numoe::execution
