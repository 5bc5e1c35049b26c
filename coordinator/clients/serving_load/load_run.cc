#include "coordinator/clients/serving_load/load_run.h"

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <deque>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/net/client/answer_chunk.h"
#include "coordinator/net/client/sse_reader.h"

namespace numoe::clients {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr auto kProgressPeriod = std::chrono::milliseconds(200);
constexpr size_t kStartsAtOnce = 64;  // sent in a row before received answers are handled
constexpr size_t kErrorBytesMax = 64 << 10;

// One running request: the reader of its stream and its times.
class Flight {
 public:
  Flight(Clock::time_point run_start, const LoadRequest& request, RequestResult& result)
      : result_(result),
        start_(Clock::now()),
        last_(start_),
        reader_([this](const net::SseEvent& event) { OnEvent(event); }) {
    result_.start_s = Seconds(run_start, start_);
    result_.prompt_tokens = request.prompt_tokens;
  }

  void OnHead(int status) { http_status_ = status; }

  absl::Status OnBody(std::string_view bytes) {
    if (http_status_ != 200) {
      refusal_.append(bytes.substr(0, kErrorBytesMax - std::min(kErrorBytesMax, refusal_.size())));
      return absl::OkStatus();
    }
    RETURN_IF_ERROR(reader_.Push(bytes));
    return failure_;
  }

  void OnEnd(absl::Status status) {
    if (status.ok() && http_status_ != 200) status = net::HttpError(http_status_, refusal_);
    if (status.ok() && !finished_)
      status = absl::UnavailableError("the stream ended without [DONE] or a finish reason");
    result_.ok = status.ok();
    result_.error = std::string(status.message());
    NUMOE_DCHECK_EQ(result_.itls_s.size(), static_cast<size_t>(std::max<int64_t>(pieces_ - 1, 0)));
    if (pieces_ == 0) result_.ttft_s = first_choice_s_;  // for an answer that has only control tokens
    result_.latency_s = pieces_ == 0 ? first_choice_s_ : Seconds(start_, last_);
    if (!result_.has_usage) result_.output_tokens = pieces_;
  }

  int64_t pieces() const { return pieces_; }

 private:
  static double Seconds(Clock::time_point from, Clock::time_point to) {
    return std::chrono::duration<double>(to - from).count();
  }

  void OnEvent(const net::SseEvent& event) {
    if (!failure_.ok()) return;
    if (event.data == "[DONE]") {
      finished_ = true;
      return;
    }
    const Clock::time_point now = Clock::now();
    const auto chunk = net::ReadAnswerChunk(event.data);
    failure_ = chunk.status();
    if (!chunk.ok()) return;
    if (chunk->usage) {
      result_.has_usage = true;
      result_.output_tokens = chunk->usage->completion_tokens;
      result_.prompt_tokens = chunk->usage->prompt_tokens;
    }
    if (!chunk->finish_reason.empty()) finished_ = true;
    if (chunk->has_choice && first_choice_s_ == 0) first_choice_s_ = Seconds(start_, now);
    if (!chunk->says_something()) return;
    if (pieces_++ == 0) {
      result_.ttft_s = Seconds(start_, now);
    } else {
      result_.itls_s.push_back(Seconds(last_, now));
    }
    last_ = now;
    result_.text += chunk->reasoning + chunk->content;
  }

  RequestResult& result_;
  const Clock::time_point start_;
  Clock::time_point last_;  // when the last piece was received
  int64_t pieces_ = 0;
  double first_choice_s_ = 0;
  int http_status_ = 0;
  bool finished_ = false;
  std::string refusal_;
  absl::Status failure_;
  net::SseReader reader_;
};

class Runner {
 public:
  Runner(net::HttpClient& client, const LoadPlan& plan,
         const std::function<void(const LoadRunProgress&)>& on_progress)
      : client_(client), plan_(plan), on_progress_(on_progress), arrival_(context_), report_(context_) {
    NUMOE_CHECK_EQ(plan.requests.size(), plan.arrivals.size());
    result_.requests.resize(plan.requests.size());
    progress_.total = plan.requests.size();
    for (const LoadRequest& request : plan.requests) bodies_.push_back(RequestBody(request, plan.format));
  }

  LoadResult Run() {
    start_ = Clock::now();
    Arrive();
    if (on_progress_) Report();
    context_.run();
    NUMOE_CHECK(finished() && progress_.running == 0 && waiting_.empty());
    result_.duration_s = Elapsed();
    if (on_progress_) on_progress_(Progress());
    return std::move(result_);
  }

 private:
  double Elapsed() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  bool finished() const { return progress_.done == plan_.requests.size(); }

  LoadRunProgress Progress() {
    progress_.elapsed_s = Elapsed();
    return progress_;
  }

  void Report() {
    report_.expires_after(kProgressPeriod);
    report_.async_wait([this](boost::system::error_code error) {
      if (error || finished()) return;
      on_progress_(Progress());
      Report();
    });
  }

  // Sends the requests whose time has come, then waits for the time of the next one.
  void Arrive() {
    for (size_t taken = 0; arrived_ < plan_.arrivals.size() && plan_.arrivals[arrived_] <= Elapsed();
         ++taken) {
      if (taken == kStartsAtOnce) return asio::post(context_, [this] { Arrive(); });
      // Requests that are all planned at 0 are not late: the client sends them as fast as it can.
      if (plan_.arrivals[arrived_] > 0)
        result_.arrival_delay_max_s =
            std::max(result_.arrival_delay_max_s, Elapsed() - plan_.arrivals[arrived_]);
      NUMOE_DCHECK(arrived_ == 0 || plan_.arrivals[arrived_ - 1] <= plan_.arrivals[arrived_]);
      waiting_.push_back(arrived_++);
      Launch();
    }
    if (arrived_ == plan_.arrivals.size()) return;
    arrival_.expires_at(start_ + std::chrono::duration_cast<Clock::duration>(
                                     std::chrono::duration<double>(plan_.arrivals[arrived_])));
    arrival_.async_wait([this](boost::system::error_code error) {
      if (!error) Arrive();
    });
  }

  void Launch() {
    const auto limit = static_cast<size_t>(plan_.max_concurrency);
    NUMOE_DCHECK_GE(plan_.max_concurrency, 0);
    while (!waiting_.empty() && (limit == 0 || progress_.running < limit)) {
      const size_t i = waiting_.front();
      waiting_.pop_front();
      ++progress_.running;
      auto flight = std::make_shared<Flight>(start_, plan_.requests[i], result_.requests[i]);
      net::HttpEvents events;
      events.on_head = [flight](int status) { flight->OnHead(status); };
      events.on_body = [this, flight](std::string_view bytes) {
        const int64_t before = flight->pieces();
        absl::Status status = flight->OnBody(bytes);
        progress_.pieces += flight->pieces() - before;
        return status;
      };
      events.on_end = [this, flight, i](const absl::Status& status) {
        flight->OnEnd(status);
        Land(result_.requests[i].ok);
      };
      client_.Send(context_,
                   {.path = plan_.format.chat ? "/v1/chat/completions" : "/v1/completions",
                    .body = std::move(bodies_[i])},
                   std::move(events));
    }
  }

  void Land(bool ok) {
    NUMOE_CHECK_GT(progress_.running, 0u);
    --progress_.running;
    ++progress_.done;
    if (!ok) ++progress_.failed;
    NUMOE_CHECK_LE(progress_.done + progress_.running, progress_.total);
    if (finished()) report_.cancel();
    Launch();
  }

  net::HttpClient& client_;
  const LoadPlan& plan_;
  const std::function<void(const LoadRunProgress&)>& on_progress_;
  asio::io_context context_{1};
  asio::steady_timer arrival_, report_;
  std::vector<std::string> bodies_;
  std::deque<size_t> waiting_;  // requests that max_concurrency delays
  size_t arrived_ = 0;
  Clock::time_point start_;
  LoadRunProgress progress_;
  LoadResult result_;
};

}  // namespace

std::string RequestBody(const LoadRequest& request, const LoadRequestFormat& format) {
  nlohmann::ordered_json body = {{"model", format.model}};
  if (format.chat) {
    body["messages"] = {{{"role", "user"}, {"content", request.prompt}}};
    body["max_completion_tokens"] = request.output_tokens;
  } else {
    body["prompt"] = request.prompt;
    body["max_tokens"] = request.output_tokens;
  }
  body["temperature"] = 0;
  body["stream"] = true;
  body["stream_options"] = {{"include_usage", true}};
  if (format.ignore_eos) body["ignore_eos"] = true;  // only if wanted, because OpenAI's API does not have it
  body.update(format.extra);
  return body.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

LoadResult RunLoad(net::HttpClient& client, const LoadPlan& plan,
                   const std::function<void(const LoadRunProgress&)>& on_progress) {
  return Runner(client, plan, on_progress).Run();
}

}  // namespace numoe::clients
