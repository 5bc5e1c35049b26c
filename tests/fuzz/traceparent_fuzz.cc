// Traceparent headers of clients: an accepted header can be written again for the next server and then has
// the same ids.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "coordinator/serving/tracing/trace_context.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view header(reinterpret_cast<const char*>(data), size);
  const auto context = numoe::serving::ParseTraceparent(header);
  if (!context) return 0;
  const std::string again =
      "00-" + context->trace_id + "-" + context->parent_id + (context->sampled ? "-01" : "-00");
  const auto read = numoe::serving::ParseTraceparent(again);
  NUMOE_CHECK(read.has_value() && read->trace_id == context->trace_id && read->sampled == context->sampled);
  NUMOE_CHECK(again.find_first_not_of("0123456789abcdef-") == std::string::npos);
  return 0;
}
