#include "coordinator/execution/attention/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/base/check.h"

namespace numoe::execution {
namespace {

// Returns the index of the pair that makes `rotations` rotations over the original context.
double CorrectionIndex(double rotations, const RopeConfig& config) {
  const double length = static_cast<double>(config.yarn.original_max_position_embeddings);
  return config.dim * std::log(length / (rotations * 2 * std::numbers::pi)) / (2 * std::log(config.theta));
}

double MagnitudeScale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

}  // namespace

RopeFrequencies PlanRope(const RopeConfig& config) {
  NUMOE_CHECK(config.dim > 0 && config.dim % 2 == 0) << "rope dim " << config.dim;
  NUMOE_CHECK(!config.has_yarn ||
              (config.yarn.factor >= 1 && config.yarn.original_max_position_embeddings > 0))
      << "factor " << config.yarn.factor;
  const int pairs = config.dim / 2;
  RopeFrequencies plan{.inverse = std::vector<float>(pairs)};
  double low = 0;
  double high = 0;
  if (config.has_yarn) {
    low = std::max(std::floor(CorrectionIndex(config.yarn.beta_fast, config)), 0.0);
    high = std::min(std::ceil(CorrectionIndex(config.yarn.beta_slow, config)), config.dim - 1.0);
    if (low == high) high += 0.001;
    plan.multiplier = static_cast<float>(MagnitudeScale(config.yarn.factor, config.yarn.mscale) /
                                         MagnitudeScale(config.yarn.factor, config.yarn.mscale_all_dim));
  }
  for (int i = 0; i < pairs; ++i) {
    const double extrapolated = std::pow(config.theta, -2.0 * i / config.dim);
    double frequency = extrapolated;
    if (config.has_yarn) {
      const double ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
      frequency = extrapolated / config.yarn.factor * ramp + extrapolated * (1 - ramp);
    }
    plan.inverse[i] = static_cast<float>(frequency);
  }
  return plan;
}

double YarnSoftmaxFactor(const RopeConfig& config) {
  if (!config.has_yarn || config.yarn.mscale_all_dim == 0) return 1.0;
  const double m = MagnitudeScale(config.yarn.factor, config.yarn.mscale_all_dim);
  return m * m;
}

}  // namespace numoe::execution
