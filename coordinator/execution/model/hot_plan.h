// Which experts a device should hold: from measured use, with as few exchanges as it takes.
//
// Heat is a count of selections that halves every half-life, so it follows what is asked without forgetting
// at once. PlanSwaps is pure: of each layer the hottest experts that have no slot against the coldest that
// have one. A swap must be worth its bytes: the newcomer has to be hotter by kSwapGain, or two experts of
// equal use would change places for ever. One thread.
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

  /// `counts` [layers, experts] of the last `seconds`.
  void Add(absl::Span<const uint32_t> counts, double seconds);
  double At(LayerId layer, ExpertId expert) const {
    NUMOE_DCHECK(layer >= 0 && 0 <= expert && expert < experts_);
    return heat_[static_cast<size_t>(layer) * static_cast<size_t>(experts_) + static_cast<size_t>(expert)];
  }
  int experts() const { return experts_; }
  /// As JSON, written beside and renamed. INTERNAL: names the file.
  absl::Status Save(const std::string& path) const;
  /// NOT_FOUND: no such file; INVALID_ARGUMENT: of another shape, or no such file's content.
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
  double gain = 0;  // of heat
  bool operator==(const ExpertSwap&) const = default;
};

/// `held` [layers][slots], kNoExpert: empty; layers without slots are empty lists. Greatest gain first.
std::vector<ExpertSwap> PlanSwaps(const ExpertHeat& heat, const std::vector<std::vector<ExpertId>>& held);

}  // namespace numoe::execution
