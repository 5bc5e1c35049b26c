#include "coordinator/text/chat/jinja_access.h"

#include <fmt/format.h>

#include <algorithm>

#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_builtins.h"

namespace numoe::text::jinja {

Value Attribute(Rendering& in, const Value& base, const std::string& name) {
  if (base.undefined())
    return in.Fail(fmt::format("'{}' is undefined: cannot read its attribute '{}'",
                               std::get<Undefined>(base.data).name, name));
  const Dict* dict = base.dict();
  if (dict != nullptr && dict->is_namespace) {
    const Value* value = dict->FindName(name);
    return value != nullptr ? *value : Value(Undefined{name});
  }
  if (IsMethod(base, name)) return Callable{name, std::make_shared<Value>(base)};
  if (dict != nullptr) {
    if (const Value* value = dict->FindName(name)) return *value;
  }
  return Undefined{name};
}

Value Item(Rendering& in, const Value& base, const Value& key) {
  if (base.undefined())
    return in.Fail(fmt::format("'{}' is undefined: cannot read its item {}",
                               std::get<Undefined>(base.data).name, Repr(key)));
  if (const Dict* dict = base.dict()) {
    if (const Value* value = dict->Find(key)) return *value;
  } else if (const auto index = AsInt(key)) {
    const List* list = base.list();
    const Str* str = base.str();
    std::vector<size_t> offsets;
    if (str != nullptr) offsets = CodePointOffsets(str->text());
    const auto size = static_cast<int64_t>(list != nullptr  ? list->size()
                                           : str != nullptr ? offsets.size() - 1
                                                            : 0);
    const int64_t at = *index < 0 ? *index + size : *index;
    if (at >= 0 && at < size) {
      if (list != nullptr) return (*list)[at];
      return Value(str->Substr(offsets[at], offsets[at + 1] - offsets[at]));
    }
  }
  if (key.str() != nullptr) {
    if (base.dict() == nullptr || !base.dict()->is_namespace) {
      if (IsMethod(base, key.str()->text()))
        return Callable{key.str()->text(), std::make_shared<Value>(base)};
    }
    return Undefined{key.str()->text()};
  }
  return Undefined{Repr(key)};
}

Value Lookup(Rendering& in, const Value& base, const Str& path) {
  Value value = base;
  const std::string& text = path.text();
  for (size_t begin = 0; begin <= text.size() && !in.failed();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool digits =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    value = Item(in, value, digits ? Value(static_cast<int64_t>(std::stoll(part))) : Value::Text(part));
    begin = end + 1;
  }
  return value;
}

List Iterate(Rendering& in, const Value& value) {
  if (const List* list = value.list()) return *list;
  if (value.undefined()) return {};
  List items;
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) items.push_back(key);
  } else if (const Str* str = value.str()) {
    const std::vector<size_t> offsets = CodePointOffsets(str->text());
    for (size_t i = 0; i + 1 < offsets.size(); ++i)
      items.emplace_back(str->Substr(offsets[i], offsets[i + 1] - offsets[i]));
  } else {
    in.Fail(fmt::format("cannot iterate over {}", TypeName(value)));
  }
  in.Charge(static_cast<int64_t>(items.size()));
  return items;
}

bool MayHold(Rendering& in, const void* container, const Value& value, int depth) {
  if (const auto* bound = value.If<Callable>())
    return bound->self == nullptr || MayHold(in, container, *bound->self, depth);
  const List* list = value.list();
  const Dict* dict = value.dict();
  if (list == nullptr && dict == nullptr) return true;
  if (list == container || dict == container) {
    in.Fail(fmt::format("a {} would hold itself", TypeName(value)));
  } else if (depth >= limits::kTemplateDepthMax) {
    in.Fail(fmt::format("lists and dicts nested more than {} deep", limits::kTemplateDepthMax));
  } else if (list != nullptr && in.Charge(1)) {
    for (const Value& item : *list) {
      if (!MayHold(in, container, item, depth + 1)) break;
    }
  } else if (dict != nullptr && in.Charge(1)) {
    for (const auto& [key, item] : dict->items) {
      if (!MayHold(in, container, item, depth + 1)) break;
    }
  }
  return !in.failed();
}

}  // namespace numoe::text::jinja
