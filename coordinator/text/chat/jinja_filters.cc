#include "coordinator/text/chat/jinja_filters.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"

namespace numoe::text::jinja {
namespace {

// The filters of Jinja2 that are not supported, with the reasons.
constexpr std::pair<std::string_view, std::string_view> kRefusedFilters[] = {
    {"random", "a prompt must be the same for the same conversation"},
    {"urlize", "links have no meaning for a model"},
};

const Filter* FindFilter(const std::string& name) {
  const Filter* found = nullptr;
  for (const FilterTable* table : {&ListFilters(), &TextFilters(), &NumberFilters(), &MarkupFilters()}) {
    const auto it = table->find(name);
    if (it == table->end()) continue;
    NUMOE_DCHECK(found == nullptr) << name << " is in two tables";
    found = &it->second;
  }
  return found;
}

}  // namespace

bool IsFilter(const std::string& name) { return FindFilter(name) != nullptr; }

Value RunFilter(Rendering& in, const std::string& name, const Value& input, const Arguments& args) {
  if (const Filter* filter = FindFilter(name)) {
    if (!in.Charge(1) || !TakesArguments(in, name, filter->signature, args)) return {};
    return filter->run(in, input, args);
  }
  for (const auto& [refused, reason] : kRefusedFilters) {
    if (name == refused) return in.Fail(fmt::format("the filter '{}' is not supported: {}", name, reason));
  }
  return in.Fail(fmt::format("no filter named '{}'", name));
}

}  // namespace numoe::text::jinja
