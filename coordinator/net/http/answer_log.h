// AnswerLog: the line of the log, and the count, that each answered request has.
//
// What anybody may ask - health checks, scrapes, the page - is asked every second, and fills the log: it is
// said at debug, but for an answer of another status than the last one of its route, as a server that has
// become ready gives. Thread-safe.
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
  const Route* route = nullptr;  // null: none was found
  int status = 0;
  double ms = 0;
  int tokens = -1;             // -1: nobody counted any
  const std::string& failure;  // what went wrong behind the status; "": nothing
};

class AnswerLog {
 public:
  /// `metrics` outlives it.
  explicit AnswerLog(Metrics& metrics) : metrics_(metrics) {}

  void Add(const AnsweredRequest& answered);

 private:
  bool IsUsual(const AnsweredRequest& answered);

  Metrics& metrics_;
  Mutex mutex_;
  std::map<std::string, int> last_ ABSL_GUARDED_BY(mutex_);  // status, by an open route's pattern
};

}  // namespace numoe::net
