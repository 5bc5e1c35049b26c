#include "coordinator/text/chat/jinja_builtins.h"

namespace numoe::text::jinja {

const Value* Arguments::Get(size_t i, std::string_view name) const {
  if (i < positional.size()) return &positional[i];
  for (const auto& [key, value] : keywords) {
    if (key == name) return &value;
  }
  return nullptr;
}

std::string Arguments::Text(size_t i, std::string_view name, const std::string& fallback) const {
  const Value* value = Get(i, name);
  return value == nullptr || value->none() ? fallback : ToStr(*value).text();
}

}  // namespace numoe::text::jinja
