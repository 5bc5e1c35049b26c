// Tracer: takes the spans of requests and sends them to an OpenTelemetry collector, in the background.
//
// Export puts spans into a queue of limits::kTraceSpansMax and returns; spans that find it full are dropped
// and counted. So no request ever waits for a collector, fails because of it, or makes the process grow. One
// thread sends batches over HTTP; it retries a batch that the collector does not accept a few times, and then
// drops it. The destructor sends what is left, for at most limits::kTraceFlushSeconds. Any thread.
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
  double ratio = 1;      // the share of the requests without their own trace that are recorded
  Attributes resource;
};

class Tracer {
 public:
  /// INVALID_ARGUMENT: the endpoint is not a valid address. Whether a collector is there is found out later.
  /// The metrics outlive the tracer.
  static absl::StatusOr<std::unique_ptr<Tracer>> Create(const TracerOptions& options, Metrics& metrics);
  virtual ~Tracer() = default;
  /// Begins the trace of a request with this traceparent header ("" if it has none). Returns nullopt if the
  /// request is not recorded.
  virtual std::optional<TraceContext> Begin(std::string_view traceparent) const = 0;
  virtual void Export(std::vector<Span> spans) = 0;
};

}  // namespace numoe::serving
