#include "coordinator/text/chat/jinja_access.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_ast.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_objects.h"
#include "coordinator/text/chat/jinja_repr.h"

namespace numoe::text::jinja {
namespace {

Value MacroAttribute(const Node& macro, const std::string& name) {
  NUMOE_DCHECK(macro.kind == Kind::kMacro);
  if (name == "name") return Value::Text(macro.text);
  if (name == "catch_kwargs") return (macro.uses & kUsesKwargs) != 0;
  if (name == "catch_varargs") return (macro.uses & kUsesVarargs) != 0;
  if (name == "caller") return (macro.uses & kUsesCaller) != 0;
  if (name != "arguments") return Undefined{name};
  List names;
  for (const std::string& argument : macro.names) names.push_back(Value::Text(argument));
  return Value::NewTuple(std::move(names));
}

}  // namespace

Value Attribute(Rendering& in, const Value& base, const std::string& name) {
  if (base.undefined())
    return in.Fail(fmt::format("'{}' is undefined: cannot read its attribute '{}'",
                               std::get<Undefined>(base.data).name, name));
  const Dict* dict = base.dict();
  if (dict != nullptr && dict->is_namespace) {
    const Value* value = dict->FindName(name);
    return value != nullptr ? *value : Value(Undefined{name});
  }
  if (const auto* object = base.If<std::shared_ptr<Object>>()) return ObjectAttribute(*object, name);
  if (IsMethod(base, name)) return Callable{name, std::make_shared<Value>(base)};
  if (dict != nullptr) {
    if (const Value* value = dict->FindName(name)) return *value;
  }
  if (base.tuple() && base.sequence()->label == kGroupLabel && (name == "grouper" || name == "list"))
    return (*base.list())[name == "list" ? 1 : 0];
  if (const auto* macro = base.If<Macro>()) return MacroAttribute(*macro->node, name);
  return Undefined{name};
}

Value Item(Rendering& in, const Value& base, const Value& key) {
  if (base.undefined())
    return in.Fail(fmt::format("'{}' is undefined: cannot read its item {}",
                               std::get<Undefined>(base.data).name, Repr(key)));
  if (const Dict* dict = base.dict()) {
    if (const Value* value = dict->Find(key)) return *value;
  } else if (const auto index = AsInt(key)) {
    const List* list = base.indexable();
    const Str* str = base.str();
    if (str != nullptr && !in.Charge(static_cast<int64_t>(str->size() / 256))) return {};
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
  if (key.str() == nullptr) return Undefined{Repr(key)};
  return base.dict() == nullptr || !base.dict()->is_namespace ? Attribute(in, base, key.str()->text())
                                                              : Value(Undefined{key.str()->text()});
}

Value Lookup(Rendering& in, const Value& base, const Value& path, const Value* fallback) {
  if (path.str() == nullptr) {
    const Value found = Item(in, base, path);
    return found.undefined() && fallback != nullptr && !fallback->none() ? *fallback : found;
  }
  Value value = base;
  const std::string& text = path.str()->text();
  for (size_t begin = 0; begin <= text.size() && !in.failed();) {
    const size_t end = std::min(text.find('.', begin), text.size());
    const std::string part = text.substr(begin, end - begin);
    const bool digits =
        !part.empty() && part.size() < 10 && part.find_first_not_of("0123456789") == std::string::npos;
    value = Item(in, value, digits ? Value(static_cast<int64_t>(std::stoll(part))) : Value::Text(part));
    if (value.undefined() && fallback != nullptr && !fallback->none()) value = *fallback;
    begin = end + 1;
  }
  return value;
}

List Iterate(Rendering& in, const Value& value) {
  if (value.IsSequence(Sequence::Kind::kGenerator)) return std::exchange(*value.sequence()->items, {});
  if (const List* list = value.list())
    return in.Charge(static_cast<int64_t>(list->size() / 32)) ? *list : List();
  if (value.undefined()) return {};
  List items;
  if (const Dict* dict = value.dict(); dict != nullptr && !dict->is_namespace) {
    for (const auto& [key, item] : dict->items) items.push_back(key);
  } else if (const Str* str = value.str()) {
    const std::vector<size_t> offsets = CodePointOffsets(str->text());
    for (size_t i = 0; i + 1 < offsets.size(); ++i)
      items.emplace_back(str->Substr(offsets[i], offsets[i + 1] - offsets[i]).AsMarkup(false));
  } else {
    in.Fail(fmt::format("cannot iterate over {}", TypeName(value)));
  }
  in.Charge(static_cast<int64_t>(items.size()));
  return items;
}

bool MayHold(Rendering& in, const void* container, const Value& value, int depth) {
  if (const auto* bound = value.If<Callable>())
    return bound->self == nullptr || MayHold(in, container, *bound->self, depth);
  NUMOE_DCHECK(container != nullptr && depth <= limits::kTemplateDepthMax + 1);
  const Object* object = value.object();
  const List* list = object != nullptr ? &object->items : value.list();
  const Dict* dict = value.dict();
  if (list == nullptr && dict == nullptr) return true;
  if (list == container || dict == container || (object != nullptr && object == container)) {
    in.Fail(fmt::format("a {} would contain itself", TypeName(value)));
  } else if (depth >= limits::kTemplateDepthMax) {
    in.Fail(fmt::format("lists and dicts nested more than {} levels deep", limits::kTemplateDepthMax));
  } else if (list != nullptr && in.Charge(1)) {
    for (const Value& item : *list) {
      if (!MayHold(in, container, item, depth + 1)) break;
    }
    if (object != nullptr && object->changed) MayHold(in, container, *object->changed, depth + 1);
  } else if (dict != nullptr && in.Charge(1)) {
    for (const auto& [key, item] : dict->items) {
      if (!MayHold(in, container, item, depth + 1)) break;
    }
  }
  return !in.failed();
}

}  // namespace numoe::text::jinja
