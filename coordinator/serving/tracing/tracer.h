// Tracer: takes the spans of requests and sends them to an OpenTelemetry collector, in the background.
//
// Export puts spans into a queue of limits::kTraceSpansMax and returns; what finds it full is dropped and
// counted, so no request ever waits for a collector, fails with it, or grows the process. One thread sends
// batches over HTTP, tries one that the collector did not take a few times, and drops it then. The destructor
// sends what is left, for limits::kTraceFlushSeconds at most. Any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/observe/metrics.h"
#include "coordinator/serving/tracing/span.h"
#include "coordinator/serving/tracing/trace_context.h"

namespace numoe::serving {

struct TracerOptions {
  std::string endpoint;  // http://HOST:4318, to which /v1/traces is added
  double ratio = 1;      // of the requests that come without a trace of their own
  Attributes resource;
};

class Tracer {
 public:
  /// INVALID_ARGUMENT: the endpoint is no address. Whether anybody is there shows later. The metrics outlive
  /// the tracer.
  static absl::StatusOr<std::unique_ptr<Tracer>> Create(const TracerOptions& options, Metrics& metrics);
  virtual ~Tracer() = default;
  /// Of a request with this traceparent header ("": none); nullopt: it is not recorded.
  virtual std::optional<TraceContext> Begin(std::string_view traceparent) const = 0;
  virtual void Export(std::vector<Span> spans) = 0;
};

}  // namespace numoe::serving
