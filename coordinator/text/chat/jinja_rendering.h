// Rendering: what one rendering of a template has used up, and its first error.
//
// Everything that works on values is handed it, to fail and to pay: operators, accesses, filters, tests,
// functions, methods. Only the first error counts, with the line that the Interpreter was at; after it
// nothing is paid any more and what is computed is thrown away. Bounded in steps (limits::kTemplateStepsMax).
// One thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

class Rendering {
 public:
  /// The line that errors name from now on.
  void At(int line) { line_ = line; }
  /// Returns undefined, for who has a value to return.
  Value Fail(const std::string& what);
  /// False once something has failed, as do too many steps.
  bool Charge(int64_t steps);
  /// A step, and more for much text: what multiplies text calls it for each piece, before it holds all of
  /// them.
  bool ChargeText(size_t bytes) { return Charge(1 + static_cast<int64_t>(bytes / 64)); }
  /// The same for text of a size that is known before it is made: fails where no output could hold it.
  bool Room(size_t bytes);
  /// Whether what is printed now is escaped.
  bool autoescape() const { return autoescape_; }
  void set_autoescape(bool autoescape) { autoescape_ = autoescape; }

  bool failed() const { return !status_.ok(); }
  const absl::Status& status() const { return status_; }

 private:
  int line_ = 0;
  int64_t steps_ = 0;
  bool autoescape_ = false;
  absl::Status status_;
};

}  // namespace numoe::text::jinja
