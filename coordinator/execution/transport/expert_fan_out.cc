#include "coordinator/execution/transport/expert_fan_out.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/transport/call_codec.h"

namespace numoe::execution {
namespace {

using Clock = std::chrono::steady_clock;

// How often a call that was given up but has not ended is given up again.
constexpr std::chrono::milliseconds kGiveUpInterval(5);

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

absl::Status StepLost(const absl::Status& why) {
  return absl::UnavailableError(fmt::format("expert worker: {}", std::string(why.message())));
}

// The spans must have the sizes that the call states, or worker and coordinator would disagree about them.
void CheckShape(const LayerCallView& call, int hidden_size) {
  NUMOE_CHECK_GE(call.tokens, 1);
  NUMOE_CHECK_GE(call.experts_per_token, 1);
  NUMOE_CHECK(call.deferred_experts >= 0 && call.deferred_experts < call.experts_per_token)
      << call.deferred_experts << " of " << call.experts_per_token;
  const auto tokens = static_cast<size_t>(call.tokens);
  NUMOE_CHECK_EQ(call.hidden.size(), tokens * static_cast<size_t>(hidden_size));
  NUMOE_CHECK_EQ(call.experts.size(), tokens * static_cast<size_t>(call.experts_per_token));
  NUMOE_CHECK_EQ(call.weights.size(), call.experts.size());
}

}  // namespace

absl::StatusOr<std::unique_ptr<ExpertFanOut>> ExpertFanOut::Connect(const SessionOptions& options,
                                                                    Metrics& metrics) {
  std::vector<Series> series;  // they exist from the start, also while this function waits for the workers
  for (const std::string& address : options.addresses) {
    series.push_back({&metrics.With(HistogramId::kWorkerCallDuration, {address}),
                      &metrics.With(CounterId::kSentBytes, {address}),
                      &metrics.With(CounterId::kReceivedBytes, {address})});
  }
  ASSIGN_OR_RETURN(auto sessions, WorkerSessions::Connect(options, metrics));
  return std::unique_ptr<ExpertFanOut>(new ExpertFanOut(std::move(sessions), std::move(series)));
}

ExpertFanOut::ExpertFanOut(std::unique_ptr<WorkerSessions> sessions, std::vector<Series> series)
    : sessions_(std::move(sessions)), series_(std::move(series)) {
  watchdog_ = std::thread([this] { KeepDeadlines(); });
}

ExpertFanOut::~ExpertFanOut() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  stopped_.NotifyAll();
  watchdog_.join();
}

// --- the watchdog ------------------------------------------------------------------------------------------

// Releases the engine from a stream, and a device from a mailbox, that has not answered by the deadline.
void ExpertFanOut::KeepDeadlines() {
  pthread_setname_np(pthread_self(), "call-deadline");
  const std::chrono::milliseconds deadline(sessions_->options().link.call_deadline_ms);
  MutexLock lock(mutex_);
  while (!stop_) {
    const Clock::time_point now = Clock::now();
    // Without a call, sleep for a whole deadline: a call that begins later cannot be late before that.
    Clock::time_point next_check = (in_call_ ? watch_since_ : now) + deadline;
    if (in_call_ && now >= next_check) {
      lock.Unlock();
      sessions_->GiveUpCall();
      lock.Lock();
      next_check = now + kGiveUpInterval;
    }
    while (!stop_ && stopped_.WaitUntil(mutex_, next_check)) {
    }
  }
}

void ExpertFanOut::Watch(bool waits) {
  wait_started_ = Clock::now();
  const MutexLock lock(mutex_);
  in_call_ = waits;
  watch_since_ = wait_started_;
}

CallActivity ExpertFanOut::Activity() const {
  const MutexLock lock(mutex_);
  return {.in_call = in_call_, .seconds = SecondsSince(watch_since_)};
}

// --- calls -------------------------------------------------------------------------------------------------

absl::Status ExpertFanOut::BeginCall(std::atomic<uint32_t>* release) {
  if (phase_ == Phase::kDeferred) {  // left by a step that was abandoned
    DropDeferred();
    EndCall();
  }
  NUMOE_CHECK(phase_ == Phase::kIdle) << "two calls at once";
  ASSIGN_OR_RETURN(calling_, sessions_->BeginCall(release));
  Watch(true);
  call_started_ = wait_started_;
  return absl::OkStatus();
}

void ExpertFanOut::EndCall() {
  calling_.clear();
  phase_ = Phase::kIdle;
  Watch(false);
  sessions_->EndCall();
}

absl::Status ExpertFanOut::Start(const LayerCallView& call) {
  const int hidden_size = sessions_->options().link.hidden_size;
  CheckShape(call, hidden_size);
  RETURN_IF_ERROR(BeginCall(/*release=*/nullptr));
  ++call_id_;
  absl::Status result;
  const auto bytes = static_cast<double>(RequestBytes(call.tokens, call.experts_per_token, hidden_size));
  for (const WorkerSession& session : calling_) {
    if (result.ok()) result = session.link->Send(call_id_, call);
    series_[session.worker].sent->Increment(bytes);
  }
  if (result.ok()) {
    phase_ = Phase::kCalled;
    values_ = call.hidden.size();
    defers_ = call.deferred_experts > 0;
    return result;
  }
  // Only some workers have received the call, so their sessions are out of step: end all of them.
  for (const WorkerSession& session : calling_) sessions_->EndSession(session, result);
  EndCall();
  return StepLost(result);
}

int64_t ExpertFanOut::LeftMs() const {
  const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - wait_started_);
  return std::max<int64_t>(sessions_->options().link.call_deadline_ms - waited.count(), 0);
}

absl::Status ExpertFanOut::Receive(ReplyPart part, absl::Span<float> out) {
  NUMOE_CHECK_EQ(out.size(), values_);
  absl::Status result;
  for (WorkerSession& session : calling_) {
    if (session.link == nullptr) continue;
    const absl::Status received = session.link->Receive(call_id_, part, LeftMs(), out);
    if (received.ok()) {
      const Series& series = series_[session.worker];
      // A deferred reply may have arrived long before the engine waits for it.
      if (part == ReplyPart::kImmediate) series.duration->Observe(SecondsSince(call_started_));
      series.received->Increment(static_cast<double>(out.size() * sizeof(float)));
    } else {
      sessions_->EndSession(session, received);
      session.link = nullptr;
      if (result.ok()) result = received;
    }
  }
  return result.ok() ? result : StepLost(result);
}

absl::Status ExpertFanOut::Finish(absl::Span<float> out) {
  NUMOE_CHECK(phase_ == Phase::kCalled) << "no call is outstanding";
  absl::Status result = Receive(ReplyPart::kImmediate, out);
  if (result.ok() && defers_) {
    phase_ = Phase::kDeferred;  // the engine continues meanwhile
    Watch(false);
    sessions_->EndCall();
    return result;
  }
  if (defers_) DropDeferred();
  EndCall();
  return result;
}

absl::Status ExpertFanOut::FinishDeferred(absl::Span<float> out) {
  NUMOE_CHECK(phase_ == Phase::kDeferred) << "no deferred reply is outstanding";
  Watch(true);
  absl::Status result = Receive(ReplyPart::kDeferred, out);
  EndCall();
  return result;
}

void ExpertFanOut::DropDeferred() {
  Watch(true);
  dropped_.resize(values_);
  (void)Receive(ReplyPart::kDeferred, absl::MakeSpan(dropped_));  // it ends the sessions of workers that fail
}

// --- calls that a device makes -----------------------------------------------------------------------------

absl::StatusOr<DirectStep> ExpertFanOut::BeginDirect(std::atomic<uint32_t>* release) {
  NUMOE_CHECK(release != nullptr);
  release->store(0);
  RETURN_IF_ERROR(BeginCall(release));
  DirectStep step{.endpoints = {}, .first_call_id = call_id_ + 1};
  for (const WorkerSession& session : calling_) {
    absl::StatusOr<MailboxEndpoint> endpoint = session.link->BeginDirect();
    if (!endpoint.ok()) {
      for (size_t begun = 0; begun < step.endpoints.size(); ++begun) calling_[begun].link->EndDirect(0, 0);
      EndCall();
      return endpoint.status();
    }
    step.endpoints.push_back(*std::move(endpoint));
  }
  phase_ = Phase::kDirect;
  return step;
}

absl::Status ExpertFanOut::EndDirect(int calls, int deferring, const absl::Status& result) {
  NUMOE_CHECK(phase_ == Phase::kDirect) << "no device makes calls";
  NUMOE_CHECK(deferring >= 0 && deferring <= calls) << deferring << " of " << calls << " calls";
  call_id_ += static_cast<uint64_t>(calls);
  const double seconds = SecondsSince(call_started_);
  for (const WorkerSession& session : calling_) {
    session.link->EndDirect(calls, deferring);
    if (!result.ok()) {
      sessions_->EndSession(session, result);
    } else if (calls > 0) {
      series_[session.worker].duration->Observe(seconds / calls);
    }
  }
  EndCall();
  return result.ok() ? result : StepLost(result);
}

}  // namespace numoe::execution
