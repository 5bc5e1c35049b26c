// MetricsText: what /metrics answers, with a limit on how often it is made.
//
// The route needs no key, and making the text takes milliseconds where there are many series. A few texts are
// made in every 100 ms; a client that asks more often gets the last one of its form again. Thread-safe.
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

  /// `metrics` outlives it.
  explicit MetricsText(const Metrics& metrics) : metrics_(metrics) {}

  MetricsAnswer Get(ScrapeForm form,
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

  /// To a scrape.
  HttpReply ReplyTo(const HttpRequest& request) {
    MetricsAnswer answer = Get(FormFor(request.Header("accept"), request.Header("accept-encoding")));
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
  std::map<std::pair<bool, bool>, MetricsAnswer> answers_ ABSL_GUARDED_BY(mutex_);  // by form
};

}  // namespace numoe::net
