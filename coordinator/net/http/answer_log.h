// AnswerLog: writes one line of the log for each answered request, and counts the request in the metrics.
//
// Health checks, scrapes and the page's files are requested every second and would fill the log. Their lines
// have the level debug, unless the status differs from the last one of the same route, as when a server
// becomes ready. Thread-safe.
#pragma once

#include <map>
#include <string>

#include "common/base/mutex.h"
#include "common/observe/metrics.h"
#include "coordinator/net/http/exchange.h"
#include "coordinator/net/http/url_table.h"

namespace numoe::net {

struct AnsweredRequest {
  const HttpRequest& request;
  const Route* route = nullptr;  // null if no route was found
  int status = 0;
  double ms = 0;
  int tokens = -1;             // -1: no handler has counted tokens
  const std::string& failure;  // what went wrong after the status had been sent; "": nothing
};

class AnswerLog {
 public:
  /// `metrics` outlives the log.
  explicit AnswerLog(Metrics& metrics) : metrics_(metrics) {}

  void Add(const AnsweredRequest& answered);

 private:
  bool IsUsual(const AnsweredRequest& answered);

  Metrics& metrics_;
  Mutex mutex_;
  std::map<std::string, int> last_ ABSL_GUARDED_BY(mutex_);  // last status, by the pattern of an open route
};

}  // namespace numoe::net
