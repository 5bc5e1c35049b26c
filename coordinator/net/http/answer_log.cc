#include "coordinator/net/http/answer_log.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/observe/logging.h"

namespace numoe::net {

bool AnswerLog::IsUsual(const AnsweredRequest& answered) {
  constexpr int kGood = 200;
  if (answered.route == nullptr || !answered.route->open) return false;
  // The status of a file of the page, whether the client knows it already or it does not exist, does not show
  // the state of the server.
  const int status = answered.status < 500 ? kGood : answered.status;
  const MutexLock lock(mutex_);
  return std::exchange(last_.try_emplace(answered.route->pattern, kGood).first->second, status) == status;
}

void AnswerLog::Add(const AnsweredRequest& answered) {
  NUMOE_CHECK(100 <= answered.status && answered.status <= 999) << answered.status;
  // The label is the pattern, not the path: a client must not be able to create any number of time series.
  const std::string pattern = answered.route == nullptr ? "none" : answered.route->pattern;
  metrics_.With(CounterId::kHttpRequests, {pattern, std::to_string(answered.status)}).Increment();
  const LogScope scope(answered.request.id);
  std::string line = fmt::format("path={} status={} ms={:.1f}", answered.request.path.substr(0, 100),
                                 answered.status, answered.ms);
  if (answered.tokens >= 0) line += fmt::format(" tokens={}", answered.tokens);
  if (!answered.failure.empty()) line += " failure=" + answered.failure;
  IsUsual(answered) ? LogDebug("{}", line) : LogInfo("{}", line);
}

}  // namespace numoe::net
