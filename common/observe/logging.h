// Logs: one line per event on stderr, as text or as JSON, with the request they belong to.
//
// SetupLogging is called once, by main, before any thread starts; from then on LogInfo and its siblings
// (common/base/log.h) work from any thread. What a line says is data: control characters in it are escaped,
// so that no client can forge a line. A LogScope names the request that this thread works on: all lines
// written meanwhile carry its id.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace numoe {

struct LogOptions {
  std::string level = "info";   // debug | info | warning | error
  std::string format = "text";  // text | json
  std::string program;          // in every line: "numoe-coordinator"
};

/// InvalidArgument names a level or format that does not exist.
absl::Status SetupLogging(const LogOptions& options);

/// Scopes nest: the innermost counts. The id must outlive the scope. Stays on one thread.
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
