#include "coordinator/execution/model/step_overlap.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"

namespace numoe::execution {
namespace {

static_assert(kNoOverlap < kOverlapTokensMin && kMeasuredOverlap < kOverlapTokensMin, "no number of tokens");
static_assert(kMeasuredTokensMin >= kOverlapTokensMin, "steps that are measured can be halved");
static_assert(kTrialSteps % 4 == 0, "half of a trial's steps are halved");

// Returns whether the n-th step of a trial is halved. The order is whole, halves, halves, whole, and so on.
bool HalvesAt(size_t n) { return n % 4 == 1 || n % 4 == 2; }

// Returns the median, so that a disturbed step does not count. A steady drift affects whole and halved steps
// equally.
double Middle(std::vector<double> values) {
  NUMOE_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace

int PlanCut(int rows) {
  NUMOE_CHECK_GE(rows, kOverlapTokensMin);
  const int half = rows / 2;
  return half >= 8 ? half / 8 * 8 : half;
}

StepOverlap::Key StepOverlap::KeyOf(const StepSize& size) {
  NUMOE_DCHECK_GE(size.rows, 1);
  return {std::bit_width(static_cast<unsigned>(size.rows - 1)), size.prompt};
}

bool StepOverlap::Measures(const StepSize& size) const {
  return tokens_ == kMeasuredOverlap && !size.defers && size.rows >= kMeasuredTokensMin;
}

bool StepOverlap::Halve(const StepSize& size) const {
  if (tokens_ == kNoOverlap || size.defers) return false;
  if (tokens_ != kMeasuredOverlap) return size.rows >= std::max(tokens_, kOverlapTokensMin);
  if (!Measures(size)) return false;
  const auto found = classes_.find(KeyOf(size));
  if (found == classes_.end()) return HalvesAt(0);
  const Class& alike = found->second;
  return alike.tries() ? HalvesAt(alike.whole.size() + alike.halves.size()) : alike.halve;
}

void StepOverlap::Record(const StepSize& size, ExpertExecution execution, double seconds) {
  if (!Measures(size) || execution == ExpertExecution::kFetched) return;
  Class& alike = classes_[KeyOf(size)];
  if (!alike.tries()) {
    --alike.settled;
    return;
  }
  (execution == ExpertExecution::kHalves ? alike.halves : alike.whole).push_back(seconds / size.rows);
  if (alike.whole.size() + alike.halves.size() < static_cast<size_t>(kTrialSteps)) return;
  // A device may have run none of them in halves.
  alike.halve = !alike.halves.empty() && !alike.whole.empty() &&
                Middle(alike.halves) * kOverlapGain < Middle(alike.whole);
  alike.settled = kSettledSteps;
  alike.whole.clear();
  alike.halves.clear();
}

}  // namespace numoe::execution
