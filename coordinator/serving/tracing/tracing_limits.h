// Limits of tracing: spans that wait for the collector, spans of one batch, and seconds to send them.
//
// Constants only, with the unit in the name: seconds, or a number of things. No request ever waits for a
// collector: spans that exceed a limit are dropped and counted.
#pragma once

#include <cstddef>

namespace numoe::limits {

// --- traces ----------------------------------------------------------------------------------------------
// Spans that wait for the collector: about 1 kB each, a few seconds' worth of the busiest server.
inline constexpr size_t kTraceSpansMax = 8'192;
inline constexpr size_t kTraceBatchSpansMax = 512;  // the default of OpenTelemetry's SDKs
inline constexpr int kTraceSendSeconds = 10;        // for one batch; also the SDKs' default
inline constexpr int kTraceFlushSeconds = 2;        // for everything that is left at the end

static_assert(kTraceBatchSpansMax <= kTraceSpansMax);

}  // namespace numoe::limits
