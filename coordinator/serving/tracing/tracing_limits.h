// Limits of tracing: spans that wait for the collector, spans of one batch, and seconds to send them.
//
// Constants only, with the unit in the name: seconds, or how many. No request ever waits for a collector:
// spans beyond a limit are dropped and counted.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- traces ----------------------------------------------------------------------------------------------
// Spans that wait for the collector: about 1 kB each, some seconds of the busiest server.
inline constexpr size_t kTraceSpansMax = 8'192;
inline constexpr size_t kTraceBatchSpansMax = 512;  // OpenTelemetry's SDKs' own
inline constexpr int kTraceSendSeconds = 10;        // for one batch; theirs too
inline constexpr int kTraceFlushSeconds = 2;        // for all that is left at the end

static_assert(kTraceBatchSpansMax <= kTraceSpansMax);

}  // namespace numoe::limits
