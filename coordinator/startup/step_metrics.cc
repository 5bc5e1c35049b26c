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

std::function<void(execution::ExpertExecution)> ObserveWaysWith(Metrics& metrics) {
  std::array<prometheus::Counter*, execution::kExpertExecutions> steps;
  for (size_t w = 0; w < execution::kExpertExecutions; ++w)
    steps[w] = &metrics.With(CounterId::kStepsByWay, {std::string(execution::kExpertExecutionNames[w])});
  return
      [steps](execution::ExpertExecution execution) { steps[static_cast<size_t>(execution)]->Increment(); };
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
