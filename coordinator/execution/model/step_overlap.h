// StepOverlap: which steps are cut in two halves, of which the device computes one while the workers have the
// other (decoder.h, two-batch overlap).
//
// A cut hides the shorter of both sides' times behind the longer one, and costs what every call costs once
// more: experts' weights are read for each half. Where that pays hangs on machine, model, rows and context,
// so it can be measured in service: the steps of a class - prompts or single tokens, rows up to a power of
// two - go both ways in turn, in an order that a steady drift (a growing context) does not favour, and then
// the way of the lower median of seconds per row; after some hundred steps it is tried again. Small steps
// stay whole: there both halves read nearly the same experts. Steps that defer are whole, too: their device
// is busy meanwhile as it is. No clocks of its own, no allocation of note; one thread, the engine's.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "coordinator/execution/device/device.h"

namespace numoe::execution {

/// Values of ModelOptions::overlap_tokens beside a number of tokens, from kOverlapTokensMin on.
inline constexpr int kNoOverlap = 0;
inline constexpr int kMeasuredOverlap = -1;

/// Of both halves together.
inline constexpr int kOverlapTokensMin = 2;
/// With fewer rows nothing is tried.
inline constexpr int kMeasuredTokensMin = 128;
/// Steps of a class in one trial, half of them each way, and between two trials.
inline constexpr int kTrialSteps = 8;
inline constexpr int kSettledSteps = 500;
/// Halves must be faster by so much, or noise would choose.
inline constexpr double kOverlapGain = 1.03;

/// What is known of a step before it runs.
struct StepSize {
  int rows = 0;
  bool prompt = false;  // some sequence has more than one token in it
  bool defers = false;
};

/// First row of the second half: of about as many rows, in eights where there are enough, which is what
/// captured steps are rounded to. REQUIRES: at least kOverlapTokensMin rows.
int PlanCut(int rows);

class StepOverlap {
 public:
  /// `tokens`: steps of so many and more are halved, or one of the values above.
  explicit StepOverlap(int tokens) : tokens_(tokens) {}

  bool Halve(const StepSize& size) const;
  /// How a step went that did not fail.
  void Record(const StepSize& size, StepWay way, double seconds);

 private:
  // Steps that are alike.
  struct Class {
    std::vector<double> whole, halves;  // seconds per row of the trial that runs
    int settled = 0;                    // steps until the next one
    bool halve = false;                 // what the last one said

    bool tries() const { return settled == 0; }
  };
  using Key = std::pair<int, bool>;  // rows' power of two, prompt
  static Key KeyOf(const StepSize& size);
  bool Measures(const StepSize& size) const;

  const int tokens_;
  std::map<Key, Class> classes_;
};

}  // namespace numoe::execution
