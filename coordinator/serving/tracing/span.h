// Span: one part of a request's life with a beginning and an end, in OpenTelemetry's terms.
//
// Values. Times are nanoseconds since 1970; names and attributes follow OpenTelemetry's semantic conventions
// for generative AI as far as these define them. A span never contains text of a request or of an answer.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace numoe::serving {

using AttributeValue = std::variant<std::string, int64_t, double, bool, std::vector<std::string>>;
using Attributes = std::vector<std::pair<std::string, AttributeValue>>;

enum class SpanKind : uint8_t { kInternal = 1, kServer = 2 };  // OTLP's numbers

struct Span {
  std::string trace_id;
  std::string span_id;
  std::string parent_id;  // empty if the trace begins here
  std::string name;
  SpanKind kind = SpanKind::kInternal;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  Attributes attributes;
  std::string error;  // empty if there was no error
};

}  // namespace numoe::serving
