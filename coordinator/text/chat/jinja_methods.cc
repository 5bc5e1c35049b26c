// The methods of lists and mappings, and the dispatch to the methods of other values.
//
// Lists may be changed by append, extend and pop, although Hugging Face's sandbox forbids that, because
// published templates do so. Other methods that change a list or mapping are refused, as in the sandbox.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_builtins.h"
#include "coordinator/text/chat/jinja_objects.h"
#include "coordinator/text/chat/jinja_string_methods.h"

namespace numoe::text::jinja {
namespace {

Value ListMethod(Rendering& in, const std::string& name, const std::shared_ptr<List>& list,
                 const Arguments& args) {
  if (name == "pop") {
    if (list->empty()) return in.Fail("pop from an empty list");
    const int64_t size = static_cast<int64_t>(list->size());
    int64_t at = args.positional.empty() ? size - 1 : AsInt(args.positional[0]).value_or(size);
    if (at < 0) at += size;
    if (at < 0 || at >= size) return in.Fail("pop: index out of range");
    Value value = (*list)[at];
    list->erase(list->begin() + at);
    return value;
  }
  if (name == "copy") return Value::NewList(*list);
  if (args.positional.empty()) return in.Fail(name + ": expected an argument");
  const Value& argument = args.positional[0];
  if (name == "append") {
    if (in.Charge(1) && MayHold(in, list.get(), argument)) list->push_back(argument);
    return None{};
  }
  if (name == "extend") {
    const List items = Iterate(in, argument);
    for (const Value& item : items) {
      if (in.Charge(1) && MayHold(in, list.get(), item)) list->push_back(item);
    }
    return None{};
  }
  if (!in.Charge(static_cast<int64_t>(list->size()))) return {};
  if (name == "count")
    return Value(static_cast<int64_t>(
        std::count_if(list->begin(), list->end(), [&](const Value& v) { return Equal(v, argument); })));
  NUMOE_DCHECK_EQ(name, "index");
  const auto size = static_cast<int64_t>(list->size());
  const auto bound = [&](size_t i, int64_t otherwise) {
    const Value* given = args.Get(i, "");
    const int64_t at = given == nullptr ? otherwise : AsInt(*given).value_or(otherwise);
    return std::clamp<int64_t>(at < 0 ? at + size : at, 0, size);
  };
  for (int64_t i = bound(1, 0), end = bound(2, size); i < end; ++i) {
    if (Equal((*list)[static_cast<size_t>(i)], argument)) return i;
  }
  return in.Fail("index: value is not in the list");
}

Value DictMethod(Rendering& in, const std::string& name, const Dict& dict, const Arguments& args) {
  if (name == "get") {
    if (!args.positional.empty() && !Hashable(args.positional[0]))
      return in.Fail(fmt::format("get: {} cannot be a key", TypeName(args.positional[0])));
    if (args.positional.empty()) return in.Fail("get: expected a key");
    if (const Value* value = dict.Find(args.positional[0])) return *value;
    return args.positional.size() > 1 ? args.positional[1] : Value(None{});
  }
  if (name == "copy") return Value(std::make_shared<Dict>(dict));
  NUMOE_DCHECK(name == "keys" || name == "values" || name == "items") << name;
  auto items = std::make_shared<List>();
  for (const auto& [key, value] : dict.items)
    items->push_back(name == "keys" ? key : name == "values" ? value : Value::NewTuple({key, value}));
  using Kind = Sequence::Kind;
  const Kind kind = name == "keys" ? Kind::kKeys : name == "values" ? Kind::kValues : Kind::kItems;
  return in.Charge(static_cast<int64_t>(items->size())) ? Value(Sequence{kind, std::move(items), ""})
                                                        : Value();
}

}  // namespace

bool IsMethod(const Value& self, const std::string& name) {
  static const std::set<std::string> kList = {"append", "extend", "pop", "count", "index", "copy"};
  static const std::set<std::string> kTuple = {"count", "index"};
  static const std::set<std::string> kDict = {"get", "items", "keys", "values", "copy"};
  if (self.str() != nullptr) return IsStringMethod(name);
  if (self.object() != nullptr) return IsObjectMethod(*self.object(), name);
  if (self.plain_list() != nullptr) return kList.count(name) > 0;
  if (self.indexable() != nullptr) return kTuple.count(name) > 0;
  return self.dict() != nullptr && !self.dict()->is_namespace && kDict.count(name) > 0;
}

Value RunMethod(Rendering& in, const std::string& name, const Value& self, const Arguments& args) {
  NUMOE_CHECK(IsMethod(self, name)) << TypeName(self) << " has no " << name;
  if (self.str() != nullptr) return RunStringMethod(in, name, *self.str(), args);
  if (const auto* object = self.If<std::shared_ptr<Object>>())
    return RunObjectMethod(in, name, **object, args);
  if (const auto* list = self.plain_list()) return ListMethod(in, name, *list, args);
  if (self.sequence() != nullptr) return ListMethod(in, name, self.sequence()->items, args);
  return DictMethod(in, name, *self.dict(), args);
}

}  // namespace numoe::text::jinja
