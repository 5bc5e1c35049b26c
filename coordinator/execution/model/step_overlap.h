// StepOverlap: decides which steps are divided into two halves (decoder.h, two-batch overlap). The device
// then computes one half while the workers compute the experts of the other.
//
// With halves, the device and the workers compute at the same time, but the costs of a call occur twice: the
// experts' weights are read for each half. Whether that pays depends on machine, model, rows and context, so
// it can be measured in service. The steps of a class (prompts or single tokens, rows up to a power of two)
// are run whole and in halves alternately, in an order that a steady drift such as a growing context does not
// favour. Then the class keeps the alternative with the lower median of seconds per row, and is measured
// again after some hundred steps. Small steps stay whole, because both halves would read nearly the same
// experts. Steps that defer stay whole, too, because the device is busy anyway while the workers compute. It
// reads no clock and allocates next to nothing; engine thread only.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "coordinator/execution/device/device.h"

namespace numoe::execution {

/// Values of ModelOptions::overlap_tokens that are not a number of tokens; a number is at least
/// kOverlapTokensMin.
inline constexpr int kNoOverlap = 0;
inline constexpr int kMeasuredOverlap = -1;

/// The least tokens of both halves together.
inline constexpr int kOverlapTokensMin = 2;
/// Steps with fewer rows are not measured.
inline constexpr int kMeasuredTokensMin = 128;
/// The steps of a class in one trial, half of which are halved, and the steps between two trials.
inline constexpr int kTrialSteps = 8;
inline constexpr int kSettledSteps = 500;
/// Halves must be faster by this factor, or noise would decide.
inline constexpr double kOverlapGain = 1.03;

/// What is known of a step before it runs.
struct StepSize {
  int rows = 0;
  bool prompt = false;  // whether a sequence has more than one token in it
  bool defers = false;
};

/// Returns the first row of the second half. Both halves have about the same number of rows. If there are
/// enough rows, the result is a multiple of 8, to which captured steps are rounded. REQUIRES: at least
/// kOverlapTokensMin rows.
int PlanCut(int rows);

class StepOverlap {
 public:
  /// `tokens`: steps with this number of tokens or more are halved; or one of the values above.
  explicit StepOverlap(int tokens) : tokens_(tokens) {}

  /// Returns whether to halve a step of this size.
  bool Halve(const StepSize& size) const;
  /// Records the time of a step that did not fail.
  void Record(const StepSize& size, ExpertExecution execution, double seconds);

 private:
  // Steps of similar size.
  struct Class {
    std::vector<double> whole, halves;  // seconds per row in the running trial
    int settled = 0;                    // steps until the next trial
    bool halve = false;                 // the result of the last trial

    bool tries() const { return settled == 0; }
  };
  using Key = std::pair<int, bool>;  // rows' power of two, prompt
  static Key KeyOf(const StepSize& size);
  bool Measures(const StepSize& size) const;

  const int tokens_;
  std::map<Key, Class> classes_;
};

}  // namespace numoe::execution
