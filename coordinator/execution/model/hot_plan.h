// Decides which experts a device should hold, from measured use and with few exchanges.
//
// Heat is a count of selections that halves every half-life, so it follows the requests gradually. PlanSwaps
// is pure: in each layer it compares the hottest experts without a slot to the coldest experts with one. A
// swap must be worth the copied bytes: the new expert has to be hotter by the factor kSwapGain, or two
// experts of equal use would be exchanged for ever. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/base/ids.h"

namespace numoe::execution {

inline constexpr double kSwapGain = 1.25;

class ExpertHeat {
 public:
  ExpertHeat(int layers, int experts, double half_life_s)
      : experts_(experts), half_life_s_(half_life_s), heat_(static_cast<size_t>(layers) * experts, 0.0) {
    NUMOE_CHECK(layers > 0 && experts > 0 && half_life_s > 0);
  }

  /// Adds `counts` [layers, experts], the selections of the last `seconds`.
  void Add(absl::Span<const uint32_t> counts, double seconds);
  double At(LayerId layer, ExpertId expert) const {
    NUMOE_DCHECK(layer >= 0 && 0 <= expert && expert < experts_);
    return heat_[static_cast<size_t>(layer) * static_cast<size_t>(experts_) + static_cast<size_t>(expert)];
  }
  int experts() const { return experts_; }
  /// Writes the heat as JSON to a temporary file and renames it to `path`. Returns INTERNAL with the file's
  /// name.
  absl::Status Save(const std::string& path) const;
  /// Returns NOT_FOUND if there is no such file; INVALID_ARGUMENT if it does not contain heat of this shape.
  absl::Status Load(const std::string& path);

 private:
  const int experts_;
  const double half_life_s_;
  std::vector<double> heat_;
};

struct ExpertSwap {
  LayerId layer = 0;
  int slot = 0;
  ExpertId expert = 0;
  double gain = 0;  // in heat
  bool operator==(const ExpertSwap&) const = default;
};

/// Returns swaps, those with the greatest gain first. `held` is [layers][slots], with kNoExpert for an empty
/// slot and an empty list for a layer without slots.
std::vector<ExpertSwap> PlanSwaps(const ExpertHeat& heat, const std::vector<std::vector<ExpertId>>& held);

}  // namespace numoe::execution
