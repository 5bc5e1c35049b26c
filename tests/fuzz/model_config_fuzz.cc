// The reader of config.json must return a configuration with the properties of check_config.h, or an error of
// one line.
#include <string>

#include "tests/fuzz/check_config.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const absl::StatusOr<numoe::ModelConfig> config = numoe::ParseModelConfig(text, "config.json");
  if (config.ok()) {
    numoe::CheckConfig(*config);
    return 0;
  }
  const std::string message(config.status().message());
  NUMOE_CHECK_EQ(message.rfind("config.json: ", 0), 0u) << message;
  NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
  NUMOE_CHECK_LT(message.size(), 2000u) << message;
  return 0;
}
