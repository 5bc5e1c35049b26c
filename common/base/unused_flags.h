// UnusedFlags: flags that were given, but have no effect in combination with the program's other flags.
//
// A flag on the command line was meant for this very program, so it is refused with a sentence that says why
// it changes nothing and what to do. A variable of the environment may be shared with other daemons that need
// it, and a file with another way to start the same daemon, so what they set becomes a note for the log, and
// the program goes on. A main function owns it, on its one thread, and asks it after Flags::Parse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "common/base/flags.h"

namespace numoe {

class UnusedFlags {
 public:
  /// REQUIRES: `flags` outlive this object, and the program's Parse has returned.
  explicit UnusedFlags(const Flags& flags);

  /// Records the flag if it was given. `why` continues a sentence that begins with the flag, and ends without
  /// a full stop: "does nothing without --otlp-endpoint; ...".
  void Add(std::string_view flag, std::string_view why);

  /// Returns INVALID_ARGUMENT with the sentence of the first recorded flag that was typed; OK if none was.
  const absl::Status& refusal() const { return refusal_; }
  /// Returns the sentences of the recorded flags that the environment or the file set, and of misspelled
  /// variables. The caller logs them after SetupLogging.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  const Flags& flags_;
  absl::Status refusal_;
  std::vector<std::string> notes_;
};

}  // namespace numoe
