#include "coordinator/startup/step_metrics.h"

#include <array>
#include <string>

namespace numoe::startup {

execution::StepClock::Observer ObservePartsWith(Metrics& metrics) {
  std::array<prometheus::Histogram*, execution::kStepParts> parts;
  for (size_t p = 0; p < execution::kStepParts; ++p) {
    parts[p] = &metrics.With(HistogramId::kStepPartDuration, {std::string(execution::kStepPartNames[p])});
  }
  return [parts](execution::StepPart part, double seconds) {
    parts[static_cast<size_t>(part)]->Observe(seconds);
  };
}

std::function<void(execution::StepWay)> ObserveWaysWith(Metrics& metrics) {
  std::array<prometheus::Counter*, execution::kStepWays> steps;
  for (size_t w = 0; w < execution::kStepWays; ++w)
    steps[w] = &metrics.With(CounterId::kStepsByWay, {std::string(execution::kStepWayNames[w])});
  return [steps](execution::StepWay way) { steps[static_cast<size_t>(way)]->Increment(); };
}

std::function<void(const execution::HotExpertsReport&)> ObserveHotExpertsWith(Metrics& metrics) {
  prometheus::Counter* const on_gpu = &metrics.With(CounterId::kGpuExpertSelections, {"gpu"});
  prometheus::Counter* const on_workers = &metrics.With(CounterId::kGpuExpertSelections, {"workers"});
  prometheus::Counter* const swaps = &metrics.With(CounterId::kGpuExpertSwaps, {});
  return [=](const execution::HotExpertsReport& report) {
    on_gpu->Increment(static_cast<double>(report.on_device));
    on_workers->Increment(static_cast<double>(report.on_workers));
    swaps->Increment(static_cast<double>(report.swaps));
  };
}

}  // namespace numoe::startup
