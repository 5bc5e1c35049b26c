// ScopedVariable: a variable of the environment that is set as long as this object lives.
//
// The environment belongs to the whole process, so only one thread may use it at a time. The destructor
// removes the variable. It reports no errors.
#pragma once

#include <cstdlib>
#include <string>

namespace numoe {

class ScopedVariable {
 public:
  ScopedVariable(const std::string& name, const std::string& value) : name_(name) {
    setenv(name_.c_str(), value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_.c_str()); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const std::string name_;
};

}  // namespace numoe
