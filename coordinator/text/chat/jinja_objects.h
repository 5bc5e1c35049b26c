// Objects that templates are given to ask and to call: loops, cyclers, joiners and blocks.
//
// A loop stands in every iteration of a for statement under that name. Attributes and methods are Jinja2's.
// Recursive loops and blocks are run by the Interpreter, because they are statements. Shared by reference.
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
  List items;                             // of a loop or cycler
  int64_t position = 0;                   // in them
  int64_t depth = 0;                      // of a loop: how many of its own it is inside of
  std::optional<Value> changed;           // what loop.changed() was asked with last
  Str separator;                          // of a joiner
  bool used = false;                      // a joiner that has been called
  const Node* node = nullptr;             // of a recursive loop or a block
  std::shared_ptr<const Scopes> closure;  // of a recursive loop: what stood around it

  std::string_view KindName() const;
};

/// Undefined where the object has no such attribute.
Value ObjectAttribute(const std::shared_ptr<Object>& object, const std::string& name);
bool IsObjectMethod(const Object& object, const std::string& name);
Value RunObjectMethod(Rendering& in, const std::string& name, Object& object, const Arguments& args);
/// What a joiner gives when it is called.
Str Joined(Object& joiner);

}  // namespace numoe::text::jinja
