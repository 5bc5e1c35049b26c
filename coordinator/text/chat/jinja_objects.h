// The objects that templates can use: loops, cyclers, joiners and blocks.
//
// In every iteration of a for statement the variable `loop` is such an object. Attributes and methods are
// those of Jinja2. The Interpreter runs recursive loops and blocks, because these are statements. Objects are
// shared by reference.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "coordinator/text/chat/jinja_rendering.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

struct Arguments;

struct Object {
  enum class Kind : uint8_t { kLoop, kCycler, kJoiner, kBlock };
  Kind kind = Kind::kLoop;
  List items;                             // a loop's or cycler's items
  int64_t position = 0;                   // the index in `items`
  int64_t depth = 0;                      // the number of calls of a recursive loop around this one
  std::optional<Value> changed;           // the last arguments of loop.changed()
  Str separator;                          // a joiner's separator
  bool used = false;                      // a joiner has been called
  const Node* node = nullptr;             // the statement of a recursive loop or a block
  std::shared_ptr<const Scopes> closure;  // the scopes around a recursive loop

  std::string_view KindName() const;
};

/// Returns an attribute; undefined if the object has no such attribute.
Value ObjectAttribute(const std::shared_ptr<Object>& object, const std::string& name);
bool IsObjectMethod(const Object& object, const std::string& name);
Value RunObjectMethod(Rendering& in, const std::string& name, Object& object, const Arguments& args);
/// Returns the result of a joiner's call: "" the first time, then its separator.
Str Joined(Object& joiner);

}  // namespace numoe::text::jinja
