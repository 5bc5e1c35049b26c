// Dataset files of numoe-bench, a JSON array or JSON lines, become requests that can be sent, or an error of
// one line.
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/check.h"
#include "coordinator/clients/serving_load/load_requests.h"

namespace {

class WordCounter final : public numoe::clients::TokenCounter {
 public:
  absl::StatusOr<int> Count(std::string_view text) override { return static_cast<int>(text.size() / 4); }
  std::string Describe() const override { return "four bytes a token"; }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int file = memfd_create("dataset", MFD_CLOEXEC);
  static const std::string path = "/proc/self/fd/" + std::to_string(file);
  NUMOE_CHECK(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == static_cast<ssize_t>(size));
  constexpr size_t kCount = 5;
  WordCounter counter;
  for (const bool sharegpt : {false, true}) {
    const auto requests =
        numoe::clients::FileRequests({.path = path, .sharegpt = sharegpt}, kCount, 1, counter);
    if (!requests.ok()) {
      const std::string message(requests.status().message());
      NUMOE_CHECK_EQ(message.rfind(path, 0), 0u) << message;
      NUMOE_CHECK_EQ(message.find('\n'), std::string::npos) << message;
      continue;
    }
    NUMOE_CHECK(requests->size() == kCount || (sharegpt && !requests->empty()));
    for (const numoe::clients::LoadRequest& request : *requests)
      NUMOE_CHECK(!request.prompt.empty() && request.output_tokens >= 1 && request.output_tokens < 1 << 20);
  }
  return 0;
}
