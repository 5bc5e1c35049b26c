// Request targets of clients, and addresses of servers that users write.
#include "common/base/check.h"
#include "coordinator/net/client/url.h"
#include "coordinator/net/http/url_text.h"

namespace {

// Checks that decoding never makes text longer, and leaves text without a percent sign unchanged.
void CheckTarget(std::string_view target) {
  const std::string path = numoe::net::PathOf(target);
  NUMOE_CHECK_LE(path.size(), target.size());
  if (target.find_first_of("%?") == std::string_view::npos) NUMOE_CHECK_EQ(path, std::string(target));
  size_t bytes = 0;
  for (const auto& [name, value] : numoe::net::QueryOf(target)) bytes += name.size() + value.size();
  NUMOE_CHECK_LE(bytes, target.size());
}

// Checks that an accepted address is safe in a request's head, and is the same when it is written and read
// again.
void CheckUrl(std::string_view text) {
  const auto url = numoe::net::ParseUrl(text);
  if (!url.ok()) {
    NUMOE_CHECK(absl::IsInvalidArgument(url.status()));
    return;
  }
  for (const std::string& part : {url->host, url->port, url->path}) {
    for (const char c : part) NUMOE_CHECK(static_cast<unsigned char>(c) > ' ' && c != 0x7f) << text;
  }
  NUMOE_CHECK(!url->host.empty() && !url->port.empty());
  const auto again = numoe::net::ParseUrl(url->ToString());
  NUMOE_CHECK(again.ok()) << url->ToString() << " from " << text;
  NUMOE_CHECK_EQ(again->Authority(), url->Authority());
  // Each parsing drops one "/v1" at the end.
  const std::string_view path = url->path;
  if (path.size() < 3 || path.substr(path.size() - 3) != "/v1") NUMOE_CHECK_EQ(again->path, url->path);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  CheckTarget(text);
  CheckUrl(text);
  return 0;
}
