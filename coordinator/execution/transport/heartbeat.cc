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
  if (pending_ != nullptr) context_->TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void Heartbeat::SendHeartbeat() {
  NUMOE_CHECK(pending_ == nullptr);
  next_ = Clock::now() + std::chrono::milliseconds(every_ms_);
  context_ = std::make_unique<grpc::ClientContext>();
  context_->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms_));
  pending_ = stub_.AsyncGetStats(context_.get(), request_, &queue_);
  pending_->Finish(&reply_, &status_, this);
}

absl::Status Heartbeat::Poll() {
  if (pending_ == nullptr) {
    if (Clock::now() >= next_) SendHeartbeat();
    return absl::OkStatus();
  }
  void* tag = nullptr;
  bool ok = false;
  if (queue_.AsyncNext(&tag, &ok, std::chrono::system_clock::now()) != grpc::CompletionQueue::GOT_EVENT)
    return absl::OkStatus();
  NUMOE_CHECK(ok && tag == this);
  pending_.reset();
  if (status_.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(
        fmt::format("no sign of life for {} ms: the worker is stopped, or the network to it is interrupted",
                    deadline_ms_));
  }
  if (status_.error_code() != grpc::StatusCode::UNAVAILABLE) {
    last_sign_ = Clock::now();  // a refusal is a sign of life, too
    return absl::OkStatus();
  }
  // A flood of connections to the worker's port may break this one, but must not end a session whose calls do
  // not use it.
  const bool shared_memory = request_.mailbox_session() != 0;
  if (shared_memory && Clock::now() - last_sign_ < std::chrono::milliseconds(deadline_ms_))
    return absl::OkStatus();
  return absl::UnavailableError(status_.error_message());
}

}  // namespace numoe::execution
