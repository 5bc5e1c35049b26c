// TraceContext: which trace a request belongs to (W3C Trace Context, level 1), and whether it is recorded.
//
// A client that sends a `traceparent` decides both: its trace is gone on with if it says "sampled", and is
// left alone if it does not. Others get a trace of their own with the probability of --trace-ratio. A header
// that is none is ignored, as the standard asks. Pure functions but for NewTraceContext, which draws; any
// thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace numoe::serving {

struct TraceContext {
  std::string trace_id;   // 32 hexadecimal digits, lower case
  std::string parent_id;  // 16 of them: the client's span; empty: none
  bool sampled = false;
};

/// nullopt: it is no traceparent.
std::optional<TraceContext> ParseTraceparent(std::string_view header);
/// One without a parent, sampled with probability `ratio`.
TraceContext NewTraceContext(double ratio);
/// 16 hexadecimal digits, not all 0.
std::string NewSpanId();

}  // namespace numoe::serving
