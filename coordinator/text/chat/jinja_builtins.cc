#include "coordinator/text/chat/jinja_builtins.h"

#include <fmt/format.h>

#include <algorithm>

#include "coordinator/text/chat/jinja_repr.h"

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

bool Arguments::Flag(size_t i, std::string_view name, bool fallback) const {
  const Value* value = Get(i, name);
  return value == nullptr ? fallback : Truthy(*value);
}

bool TakesArguments(Rendering& in, const std::string& name, std::string_view signature,
                    const Arguments& args) {
  const bool none = args.positional.empty() && args.keywords.empty();
  if (signature == "*" || (none && signature.find(';') == std::string_view::npos)) return true;
  const size_t semicolon = signature.find(';');
  std::vector<std::string_view> names;
  size_t needed = 0;
  for (size_t begin = 0; begin < signature.size();) {
    const size_t end = std::min(signature.find_first_of(",;", begin), signature.size());
    names.push_back(signature.substr(begin, end - begin));
    if (semicolon != std::string_view::npos && end <= semicolon) ++needed;
    begin = end + 1;
  }
  if (args.positional.size() > names.size()) {
    in.Fail(
        fmt::format("{} takes at most {} arguments, found {}", name, names.size(), args.positional.size()));
  }
  for (const auto& [key, value] : args.keywords) {
    const auto place = std::find(names.begin(), names.end(), key);
    if (place == names.end() || static_cast<size_t>(place - names.begin()) < args.positional.size())
      in.Fail(fmt::format("{} takes no argument '{}'", name, key));
  }
  for (size_t i = 0; i < needed; ++i) {
    if (args.Get(i, names[i]) == nullptr)
      in.Fail(fmt::format("{}: expected the argument '{}'", name, names[i]));
  }
  return !in.failed();
}

}  // namespace numoe::text::jinja
