// TraceContext: which trace a request belongs to (W3C Trace Context, level 1), and whether it is recorded.
//
// A client that sends a `traceparent` decides both: its trace is continued if the flag "sampled" is set, and
// the request is not recorded otherwise. Other requests get their own trace with the probability of
// --trace-ratio. A malformed header is ignored, as the standard requires. Pure functions, except
// NewTraceContext and NewSpanId, which draw random numbers; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace numoe::serving {

struct TraceContext {
  std::string trace_id;   // 32 hexadecimal digits, lower case
  std::string parent_id;  // 16 hexadecimal digits: the client's span; empty if there is none
  bool sampled = false;
};

/// Returns nullopt if the header is not a valid traceparent.
std::optional<TraceContext> ParseTraceparent(std::string_view header);
/// A context without a parent, sampled with the probability `ratio`.
TraceContext NewTraceContext(double ratio);
/// 16 hexadecimal digits, not all 0.
std::string NewSpanId();

}  // namespace numoe::serving
