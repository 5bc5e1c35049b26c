#include "coordinator/execution/transport/heartbeat.h"

#include <fmt/format.h>

#include "common/base/check.h"

namespace numoe::execution {

using Clock = std::chrono::steady_clock;

Heartbeat::Heartbeat(v1::ExpertWorker::Stub& stub, int64_t every_ms, int64_t deadline_ms)
    : stub_(stub),
      every_ms_(every_ms),
      deadline_ms_(deadline_ms),
      next_(Clock::now() + std::chrono::milliseconds(every_ms)),
      last_sign_(Clock::now()) {}

Heartbeat::~Heartbeat() {
  if (question_ != nullptr) context_->TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void Heartbeat::Ask() {
  NUMOE_CHECK(question_ == nullptr);
  next_ = Clock::now() + std::chrono::milliseconds(every_ms_);
  context_ = std::make_unique<grpc::ClientContext>();
  context_->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms_));
  question_ = stub_.AsyncGetStats(context_.get(), request_, &queue_);
  question_->Finish(&reply_, &status_, this);
}

absl::Status Heartbeat::Look() {
  if (question_ == nullptr) {
    if (Clock::now() >= next_) Ask();
    return absl::OkStatus();
  }
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now()) != grpc::CompletionQueue::GOT_EVENT)
    return absl::OkStatus();
  NUMOE_CHECK(ok && tag == this);
  question_.reset();
  if (status_.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(
        fmt::format("no sign of life for {} ms: it is stopped, or the network to it is cut", deadline_ms_));
  }
  if (status_.error_code() != grpc::StatusCode::UNAVAILABLE) {
    last_sign_ = Clock::now();  // a refusal is a sign of life, too
    return absl::OkStatus();
  }
  // Who floods the worker's port may end this connection, but not a session whose calls go past it.
  const bool calls_go_past = request_.mailbox_session() != 0;
  if (calls_go_past && Clock::now() - last_sign_ < std::chrono::milliseconds(deadline_ms_))
    return absl::OkStatus();
  return absl::UnavailableError(status_.error_message());
}

}  // namespace numoe::execution
