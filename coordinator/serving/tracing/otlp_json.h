// OTLP/HTTP JSON: spans as collectors take them at /v1/traces (opentelemetry-proto's
// ExportTraceServiceRequest in its JSON mapping: hexadecimal ids, 64-bit numbers as strings).
//
// A pure function; bytes that are no UTF-8 are replaced.
#pragma once

#include <string>
#include <vector>

#include "coordinator/serving/tracing/span.h"

namespace numoe::serving {

/// `resource`: what they are about: service.name and the like.
std::string ToOtlpJson(const std::vector<Span>& spans, const Attributes& resource);

}  // namespace numoe::serving
