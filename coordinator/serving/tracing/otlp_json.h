// OTLP/HTTP JSON: spans in the form that collectors accept at /v1/traces (opentelemetry-proto's
// ExportTraceServiceRequest in its JSON mapping: hexadecimal ids, 64-bit numbers as strings).
//
// A pure function; bytes that are not UTF-8 are replaced.
#pragma once

#include <string>
#include <vector>

#include "coordinator/serving/tracing/span.h"

namespace numoe::serving {

/// `resource` describes the origin of the spans: service.name and the like.
std::string ToOtlpJson(const std::vector<Span>& spans, const Attributes& resource);

}  // namespace numoe::serving
