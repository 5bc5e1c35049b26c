// The filters, tests, functions and methods that published chat templates use.
//
// Each has the rendering as an argument, for errors and steps, and is in
// jinja_{filters,tests,functions,methods}.cc. An unknown or unsupported filter or test fails the rendering
// with its line. For functions and methods the caller first checks the name with IsFunction or IsMethod.
// Semantics are those of Jinja2 3.1 and Python.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/text/chat/jinja_rendering.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

/// Arguments of a call, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> keywords;

  /// Returns the i-th positional argument, or the keyword argument `name`; nullptr if neither is given.
  const Value* Get(size_t i, std::string_view name) const;
  /// Returns that argument as text; `fallback` if it is not given or none.
  std::string Text(size_t i, std::string_view name, const std::string& fallback) const;
  /// Returns the truth of that argument; `fallback` if it is not given.
  bool Flag(size_t i, std::string_view name, bool fallback) const;
};

/// Returns whether arguments fit a signature; if not, the rendering fails. A signature has the names of the
/// arguments in order, separated by commas. The arguments before a semicolon are required. The signature "*"
/// allows any arguments.
bool TakesArguments(Rendering& in, const std::string& name, std::string_view signature,
                    const Arguments& args);

Value RunFilter(Rendering& in, const std::string& name, const Value& input, const Arguments& args);
bool RunTest(Rendering& in, const std::string& name, const Value& input, const Arguments& args);
bool IsFilter(const std::string& name);
bool IsTest(const std::string& name);
bool IsFunction(const std::string& name);
Value RunFunction(Rendering& in, const std::string& name, const Arguments& args);
/// Whether `self` has a method `name` of strings, lists or dicts.
bool IsMethod(const Value& self, const std::string& name);
Value RunMethod(Rendering& in, const std::string& name, const Value& self, const Arguments& args);

}  // namespace numoe::text::jinja
