#include "coordinator/startup/step_metrics.h"

#include <array>
#include <string>

namespace numoe {

StepClock::Observer ObservePartsWith(Metrics& metrics) {
  std::array<prometheus::Histogram*, kStepParts> parts;
  for (size_t p = 0; p < kStepParts; ++p) {
    parts[p] = &metrics.With(HistogramId::kStepPartDuration, {std::string(kStepPartNames[p])});
  }
  return [parts](StepPart part, double seconds) { parts[static_cast<size_t>(part)]->Observe(seconds); };
}

std::function<void(StepWay)> ObserveWaysWith(Metrics& metrics) {
  std::array<prometheus::Counter*, kStepWays> steps;
  for (size_t w = 0; w < kStepWays; ++w)
    steps[w] = &metrics.With(CounterId::kStepsByWay, {std::string(kStepWayNames[w])});
  return [steps](StepWay way) { steps[static_cast<size_t>(way)]->Increment(); };
}

std::function<void(const HotExpertsReport&)> ObserveHotExpertsWith(Metrics& metrics) {
  prometheus::Counter* const on_gpu = &metrics.With(CounterId::kGpuExpertSelections, {"gpu"});
  prometheus::Counter* const on_workers = &metrics.With(CounterId::kGpuExpertSelections, {"workers"});
  prometheus::Counter* const swaps = &metrics.With(CounterId::kGpuExpertSwaps, {});
  return [=](const HotExpertsReport& report) {
    on_gpu->Increment(static_cast<double>(report.on_device));
    on_workers->Increment(static_cast<double>(report.on_workers));
    swaps->Increment(static_cast<double>(report.swaps));
  };
}

}  // namespace numoe
