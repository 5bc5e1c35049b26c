// RequestTrace: a request as OpenTelemetry spans, collected while it is answered and exported once.
//
// One span for the request, and below it for each choice: queue (until the engine starts it), prefill (until
// its first token) and decode. They contain no text of the request or of the answer, only sizes, parameters
// and times. Histograms of the metrics get the trace as an exemplar. Used on the connection's executor, like
// its GenerationTask. If End is not called, the client has gone.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/observe/metrics.h"
#include "coordinator/net/http/exchange.h"
#include "coordinator/serving/api/answer_writer.h"
#include "coordinator/serving/api/generation_request.h"
#include "coordinator/serving/tracing/tracer.h"

namespace numoe::serving {

class RequestTrace {
 public:
  /// Null if there is no tracer, or the request is not recorded.
  static std::unique_ptr<RequestTrace> Begin(Tracer* tracer, Metrics& metrics,
                                             const net::HttpRequest& request);
  RequestTrace(const RequestTrace&) = delete;
  RequestTrace& operator=(const RequestTrace&) = delete;
  ~RequestTrace();

  /// Adds the request's parameters, once they are known.
  void Describe(const GenerationRequest& request, const std::string& answer_id, const std::string& model);
  void Submitted(size_t choice);
  void Took(size_t choice, const engine::TokenEvent& event);
  /// `error` is "" if the request was answered.
  void End(int http_status, const std::string& error, const Choices& choices);

 private:
  using Clock = std::chrono::steady_clock;
  struct ChoiceTimes {
    Clock::time_point submitted;
    std::optional<Clock::time_point> admitted, first_token, last_token;
  };

  RequestTrace(Tracer& tracer, Metrics& metrics, TraceContext context, const net::HttpRequest& request);
  int64_t Nanoseconds(Clock::time_point time) const;
  Span Part(const char* name, size_t choice, Clock::time_point begin, Clock::time_point end) const;
  void AddParts(size_t choice, const ChoiceTimes& times, Clock::time_point end, std::vector<Span>& out) const;

  void AddExemplars(const ChoiceTimes& times) const;

  Tracer& tracer_;
  Metrics& metrics_;
  Span root_;
  const Clock::time_point begin_;
  std::vector<ChoiceTimes> choices_;
  bool over_ = false;
};

}  // namespace numoe::serving
