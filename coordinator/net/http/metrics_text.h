// MetricsText: the answers of /metrics, with a limit on how often the text is made.
//
// The route needs no key, and making the text takes milliseconds if there are many series. At most kMadeMax
// texts are made in each window of 100 ms; further requests get the last text of the same format.
// Thread-safe.
#pragma once

#include <chrono>
#include <map>
#include <utility>

#include "common/base/mutex.h"
#include "common/observe/metrics_answer.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::net {

class MetricsText {
 public:
  static constexpr int kMadeMax = 10;
  static constexpr std::chrono::milliseconds kWindow{100};

  /// `metrics` outlives this object.
  explicit MetricsText(const Metrics& metrics) : metrics_(metrics) {}

  MetricsAnswer Get(ScrapeFormat form,
                    std::chrono::steady_clock::time_point now = std::chrono::steady_clock::now()) {
    const MutexLock lock(mutex_);
    if (now >= begun_ + kWindow) {
      begun_ = now;
      made_ = 0;
    }
    MetricsAnswer& answer = answers_[{form.open_metrics, form.gzip}];
    if (made_ < kMadeMax || answer.body.empty()) {
      ++made_;
      answer = AnswerScrape(metrics_, form);
    }
    return answer;
  }

  /// The reply to a scrape.
  HttpReply ReplyTo(const HttpRequest& request) {
    MetricsAnswer answer =
        Get(ChooseScrapeFormat(request.Header("accept"), request.Header("accept-encoding")));
    HttpReply reply{.body = std::move(answer.body), .type = std::move(answer.type)};
    reply.headers = {{"Vary", "Accept, Accept-Encoding"}};
    if (!answer.encoding.empty()) reply.headers.emplace_back("Content-Encoding", answer.encoding);
    return reply;
  }

 private:
  const Metrics& metrics_;
  Mutex mutex_;
  std::chrono::steady_clock::time_point begun_ ABSL_GUARDED_BY(mutex_);
  int made_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<std::pair<bool, bool>, MetricsAnswer> answers_ ABSL_GUARDED_BY(mutex_);  // by (OpenMetrics, gzip)
};

}  // namespace numoe::net
