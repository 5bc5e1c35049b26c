// Rendering: the steps that a rendering of a template has used, and its first error.
//
// Everything that works on values (operators, accesses, filters, tests, functions, methods) has it as an
// argument, to report errors and to charge steps. Only the first error counts, with the line at which the
// Interpreter was; after it no steps are charged, and results are discarded. The number of steps is bounded
// (limits::kTemplateStepsMax). Belongs to one thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

class Rendering {
 public:
  /// Sets the line for later errors.
  void At(int line) { line_ = line; }
  /// Records the error, if it is the first. Returns undefined, so that callers can return the result.
  Value Fail(const std::string& what);
  /// Counts steps; too many are an error. Returns false after any error.
  bool Charge(int64_t steps);
  /// Charges one step, and more for long text. Operations that multiply text call it for each piece, before
  /// all pieces are in memory.
  bool ChargeText(size_t bytes) { return Charge(1 + static_cast<int64_t>(bytes / 64)); }
  /// Charges text of a known size before it is made. Fails if the text is larger than any output may be.
  bool Room(size_t bytes);
  /// Whether printed text is escaped at present.
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
