// Tool declarations of clients: any JSON becomes TypeScript or is refused, and the result is the same for
// another order of keys.
#include <string_view>

#include "common/base/check.h"
#include "common/json/json_reader.h"
#include "coordinator/text/chat/typescript_tools.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto tools = numoe::ParseBoundedJson({reinterpret_cast<const char*>(data), size});
  if (!tools.ok() || !tools->is_array()) return 0;
  const nlohmann::ordered_json sorted = numoe::text::SortKeys(*tools);
  NUMOE_CHECK(nlohmann::json(sorted) == nlohmann::json(*tools)) << "a member was lost";
  NUMOE_CHECK(numoe::text::SortKeys(sorted).dump() == sorted.dump());
  const std::optional<std::string> text = numoe::text::ToolsAsTypeScript(sorted);
  if (text) NUMOE_CHECK(text->empty() || text->rfind("# Tools\n\n## functions\n", 0) == 0) << *text;
  return 0;
}
