#include "coordinator/text/chat/jinja_objects.h"

#include <fmt/format.h>

#include "common/base/check.h"
#include "coordinator/text/chat/jinja_access.h"
#include "coordinator/text/chat/jinja_builtins.h"

namespace numoe::text::jinja {
namespace {

Value LoopAttribute(const Object& loop, const std::string& name) {
  const auto length = static_cast<int64_t>(loop.items.size());
  const int64_t at = loop.position;
  NUMOE_DCHECK(at >= 0 && at < length);
  if (name == "index") return at + 1;
  if (name == "index0") return at;
  if (name == "revindex") return length - at;
  if (name == "revindex0") return length - at - 1;
  if (name == "first") return at == 0;
  if (name == "last") return at + 1 == length;
  if (name == "length") return length;
  if (name == "depth") return loop.depth + 1;
  if (name == "depth0") return loop.depth;
  if (name == "previtem" && at > 0) return loop.items[static_cast<size_t>(at) - 1];
  if (name == "nextitem" && at + 1 < length) return loop.items[static_cast<size_t>(at) + 1];
  return Undefined{"loop." + name};
}

}  // namespace

std::string_view Object::KindName() const {
  static constexpr std::string_view kNames[] = {"loop", "cycler", "joiner", "block"};
  return kNames[static_cast<size_t>(kind)];
}

Value ObjectAttribute(const std::shared_ptr<Object>& object, const std::string& name) {
  NUMOE_DCHECK(object != nullptr);
  if (IsObjectMethod(*object, name)) return Callable{name, std::make_shared<Value>(object)};
  if (object->kind == Object::Kind::kLoop) return LoopAttribute(*object, name);
  if (object->kind == Object::Kind::kCycler && name == "current")
    return object->items[static_cast<size_t>(object->position)];
  return Undefined{name};
}

bool IsObjectMethod(const Object& object, const std::string& name) {
  if (object.kind == Object::Kind::kLoop) return name == "cycle" || name == "changed";
  return object.kind == Object::Kind::kCycler && (name == "next" || name == "reset");
}

Value RunObjectMethod(Rendering& in, const std::string& name, Object& object, const Arguments& args) {
  NUMOE_DCHECK(IsObjectMethod(object, name)) << name;
  const auto count = static_cast<int64_t>(args.positional.size());
  if (name == "cycle") {
    if (count == 0) return in.Fail("loop.cycle: expected items to cycle through");
    return args.positional[static_cast<size_t>(object.position % count)];
  }
  if (name == "changed") {
    Value now = Value::NewTuple(List(args.positional.begin(), args.positional.end()));
    if (!MayHold(in, &object, now)) return {};
    const bool changed = !object.changed || !Equal(*object.changed, now);
    object.changed = std::move(now);
    return changed;
  }
  const auto at = static_cast<size_t>(object.position);
  object.position = name == "reset" ? 0 : (object.position + 1) % static_cast<int64_t>(object.items.size());
  return name == "reset" ? Value(None{}) : object.items[at];
}

Str Joined(Object& joiner) {
  NUMOE_DCHECK(joiner.kind == Object::Kind::kJoiner);
  if (joiner.used) return joiner.separator;
  joiner.used = true;
  return Str();
}

}  // namespace numoe::text::jinja
