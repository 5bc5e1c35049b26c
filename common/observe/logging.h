// Logs: one line per event on stderr, as text or as JSON, with the request they belong to.
//
// Main calls SetupLogging once before any thread starts; after that LogInfo and its siblings
// (common/base/log.h) work on any thread. The content of a line is data: control characters in it are
// escaped, so that no client can forge a line. A LogScope names the request on which this thread works: all
// lines that are written meanwhile contain its id.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace numoe {

/// The help text of a --log-level flag.
inline constexpr char kLogLevelHelp[] =
    "Least severe messages that are logged: debug, info, warning (or warn), error; in small letters or "
    "capitals";

struct LogOptions {
  std::string level = "info";   // debug | info | warning | warn | error, in small letters or capitals
  std::string format = "text";  // text | json
  std::string program;          // in every line: "numoe-coordinator"
};

/// InvalidArgument names a level or format that does not exist.
absl::Status SetupLogging(const LogOptions& options);

/// Scopes may be nested; the innermost one counts. The id must outlive the scope. A scope stays on one
/// thread.
class LogScope {
 public:
  explicit LogScope(std::string_view request_id);
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;
  ~LogScope();

 private:
  const std::string_view outer_;
};

}  // namespace numoe
