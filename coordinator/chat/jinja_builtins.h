// The filters, tests, functions and methods that published chat templates use.
//
// Each takes the interpreter for errors and lookups, and lives in jinja_{filters,tests,functions,methods}.cc.
// An unknown filter or test fails the rendering with its line; names of functions and methods are asked for
// with Is* first. Semantics are Jinja2 3.1's and Python's.
#pragma once

#include <string>

#include "coordinator/chat/jinja_interpreter.h"

namespace numoe::jinja {

Value RunFilter(Interpreter& in, const std::string& name, const Value& input, const Arguments& args);
bool RunTest(Interpreter& in, const std::string& name, const Value& input, const Arguments& args);
bool IsFunction(const std::string& name);
Value RunFunction(Interpreter& in, const std::string& name, const Arguments& args);
/// A method of strings, lists or dicts that exists for `self`.
bool IsMethod(const Value& self, const std::string& name);
Value RunMethod(Interpreter& in, const std::string& name, const Value& self, const Arguments& args);

}  // namespace numoe::jinja
