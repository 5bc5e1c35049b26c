// Bodies of SGLang's clients: any body becomes a request within its limits, or an error object with a 4xx
// status.
#include "coordinator/serving/api/native_request.h"
#include "tests/fuzz/check_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  numoe::CheckReader(body, {numoe::serving::ReadNativeRequest});
  return 0;
}
