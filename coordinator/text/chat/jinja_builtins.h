// The filters, tests, functions and methods that published chat templates use.
//
// Each takes the rendering for errors and steps, and lives in jinja_{filters,tests,functions,methods}.cc.
// An unknown filter or test fails the rendering with its line, and so do those that are known and not
// supported; names of functions and methods are asked for with Is* first. Semantics are Jinja2 3.1's and
// Python's.
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

  /// The i-th positional, or the keyword; nullptr if neither is given.
  const Value* Get(size_t i, std::string_view name) const;
  /// The same as text; `fallback` if it is not given or none.
  std::string Text(size_t i, std::string_view name, const std::string& fallback) const;
  /// The same as truth.
  bool Flag(size_t i, std::string_view name, bool fallback) const;
};

/// Which arguments something takes, by name and in order, separated by commas: those before ';' must be
/// given.
/// "*": any.
bool TakesArguments(Rendering& in, const std::string& name, std::string_view signature,
                    const Arguments& args);

Value RunFilter(Rendering& in, const std::string& name, const Value& input, const Arguments& args);
bool RunTest(Rendering& in, const std::string& name, const Value& input, const Arguments& args);
bool IsFilter(const std::string& name);
bool IsTest(const std::string& name);
bool IsFunction(const std::string& name);
Value RunFunction(Rendering& in, const std::string& name, const Arguments& args);
/// A method of strings, lists or dicts that exists for `self`.
bool IsMethod(const Value& self, const std::string& name);
Value RunMethod(Rendering& in, const std::string& name, const Value& self, const Arguments& args);

}  // namespace numoe::text::jinja
