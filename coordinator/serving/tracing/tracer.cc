#include "coordinator/serving/tracing/tracer.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <thread>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "coordinator/net/client/http_client.h"
#include "coordinator/serving/tracing/otlp_json.h"
#include "coordinator/serving/tracing/tracing_limits.h"

namespace numoe::serving {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr seconds kBatchEvery{1};
constexpr int kTriesMax = 3;
constexpr seconds kBetweenTries{1};

class CollectorTracer final : public Tracer {
 public:
  CollectorTracer(net::Url url, const TracerOptions& options, Metrics& metrics)
      : url_(std::move(url)), options_(options), metrics_(metrics), thread_([this] { Run(); }) {}

  ~CollectorTracer() override {
    {
      const MutexLock lock(mutex_);
      stop_ = true;
    }
    wake_.NotifyOne();
    thread_.join();
  }

  std::optional<TraceContext> Begin(std::string_view traceparent) const override {
    TraceContext context = ParseTraceparent(traceparent).value_or(TraceContext{});
    if (context.trace_id.empty()) context = NewTraceContext(options_.ratio);
    if (!context.sampled) return std::nullopt;
    return context;
  }

  void Export(std::vector<Span> spans) override {
    size_t dropped = 0;
    NUMOE_CHECK(!spans.empty());
    bool full = false;
    {
      const MutexLock lock(mutex_);
      const size_t room = limits::kTraceSpansMax - std::min(limits::kTraceSpansMax, queue_.size());
      // The spans of a request are useful only together.
      if (spans.size() > room) {
        dropped = spans.size();
      } else {
        std::move(spans.begin(), spans.end(), std::back_inserter(queue_));
      }
      full = queue_.size() >= limits::kTraceBatchSpansMax;
      NUMOE_CHECK_LE(queue_.size(), limits::kTraceSpansMax);
    }
    if (dropped > 0) metrics_.Add(CounterId::kTraceSpansDropped, static_cast<double>(dropped));
    if (full) wake_.NotifyOne();
  }

 private:
  void Run() {
    pthread_setname_np(pthread_self(), "tracer");
    for (bool ending = false; !ending;) {
      std::vector<Span> batch;
      {
        const MutexLock lock(mutex_);
        const auto due = Clock::now() + kBatchEvery;
        while (!stop_ && queue_.size() < limits::kTraceBatchSpansMax && wake_.WaitUntil(mutex_, due)) {
        }
        ending = stop_;
        batch = TakeBatch();
      }
      if (ending) return Flush(std::move(batch));
      if (!batch.empty()) Deliver(batch);
    }
  }

  std::vector<Span> TakeBatch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto count = static_cast<int64_t>(std::min(queue_.size(), limits::kTraceBatchSpansMax));
    std::vector<Span> batch(std::make_move_iterator(queue_.begin()),
                            std::make_move_iterator(queue_.begin() + count));
    queue_.erase(queue_.begin(), queue_.begin() + count);
    return batch;
  }

  void Deliver(const std::vector<Span>& batch) {
    for (int attempt = 1;; ++attempt) {
      const absl::Status sent = Send(batch, seconds(limits::kTraceSendSeconds));
      if (sent.ok()) return Sent(batch, "");
      MutexLock lock(mutex_);
      const auto next_try = Clock::now() + attempt * kBetweenTries;
      while (!stop_ && wake_.WaitUntil(mutex_, next_try)) {
      }
      if (!stop_ && attempt < kTriesMax) continue;
      lock.Unlock();
      return Sent(batch, std::string(sent.message()));
    }
  }

  void Flush(std::vector<Span> batch) {
    const auto deadline = Clock::now() + seconds(limits::kTraceFlushSeconds);
    while (!batch.empty()) {
      const auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
      const absl::Status sent =
          left > milliseconds(0) ? Send(batch, left) : absl::DeadlineExceededError("late");
      Sent(batch, sent.ok() ? "" : std::string(sent.message()));
      const MutexLock lock(mutex_);
      batch = TakeBatch();
    }
  }

  // Logs once when the collector stops accepting spans, and once when it accepts them again.
  void Sent(const std::vector<Span>& batch, const std::string& error) {
    metrics_.Add(error.empty() ? CounterId::kTraceSpansSent : CounterId::kTraceSpansDropped,
                 static_cast<double>(batch.size()));
    if (error.empty() == well_) return;
    well_ = error.empty();
    if (well_) {
      LogInfo("the collector {} accepts traces again", url_.ToString());
    } else {
      LogWarning("traces do not reach --otlp-endpoint={} and are dropped: {}", url_.ToString(), error);
    }
  }

  absl::Status Send(const std::vector<Span>& batch, milliseconds patience) {
    // The collector's name is looked up again after a failure, because its address may have changed.
    if (client_ == nullptr) {
      ASSIGN_OR_RETURN(client_, net::HttpClient::Create(url_, ""));
    }
    boost::asio::io_context context(1);
    int status = 0;
    std::optional<absl::Status> end;
    const auto exchange =
        client_->Send(context, {.path = "/v1/traces", .body = ToOtlpJson(batch, options_.resource)},
                      {.on_head = [&](int code) { status = code; },
                       .on_body = [](std::string_view) { return absl::OkStatus(); },
                       .on_end = [&](const absl::Status& ended) { end = ended; }});
    context.run_for(patience);
    if (!end) {
      exchange->Cancel();
      context.restart();
      context.run();
    }
    NUMOE_CHECK(end.has_value()) << "a cancelled exchange also calls on_end";
    absl::Status result = *end;
    if (result.ok() && status / 100 != 2) result = absl::UnavailableError(fmt::format("HTTP {}", status));
    if (!result.ok()) client_.reset();
    return result;
  }

  const net::Url url_;
  const TracerOptions options_;
  Metrics& metrics_;
  std::unique_ptr<net::HttpClient> client_;  // used by thread_ only
  bool well_ = true;                         // used by thread_ only
  Mutex mutex_;
  CondVar wake_;
  std::deque<Span> queue_ ABSL_GUARDED_BY(mutex_);
  bool stop_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Tracer>> Tracer::Create(const TracerOptions& options, Metrics& metrics) {
  absl::StatusOr<net::Url> url = net::ParseUrl(options.endpoint);
  if (!url.ok()) return Annotate(url.status(), "--otlp-endpoint");
  return std::make_unique<CollectorTracer>(*std::move(url), options, metrics);
}

}  // namespace numoe::serving
