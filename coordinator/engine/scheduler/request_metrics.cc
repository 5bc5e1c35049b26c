#include "coordinator/engine/scheduler/request_metrics.h"

#include <chrono>

#include "common/base/check.h"

namespace numoe::engine {

void RecordAnswer(const Sequence& s, Metrics& metrics) {
  const auto seconds = [](std::chrono::steady_clock::duration time) {
    return std::chrono::duration<double>(time).count();
  };
  metrics.Observe(HistogramId::kRequestPromptTokens, static_cast<double>(s.prompt_tokens));
  metrics.Observe(HistogramId::kRequestMaxTokens, static_cast<double>(s.tokens_max - s.prompt_tokens));
  metrics.Observe(HistogramId::kRequestGeneratedTokens, static_cast<double>(s.generated()));
  if (s.generated() == 0) return;
  NUMOE_CHECK(s.admitted <= s.first_token && s.first_token <= s.last_token) << "sequence " << s.id;
  const double decode = seconds(s.last_token - s.first_token);
  metrics.Observe(HistogramId::kRequestPrefill, seconds(s.first_token - s.admitted));
  metrics.Observe(HistogramId::kRequestDecode, decode);
  metrics.Observe(HistogramId::kRequestInference, seconds(s.last_token - s.admitted));
  if (s.generated() > 1)
    metrics.Observe(HistogramId::kRequestToken, decode / static_cast<double>(s.generated() - 1));
}

}  // namespace numoe::engine
