#include "coordinator/transport/heartbeat.h"

#include <fmt/format.h>

namespace numoe {

using Clock = std::chrono::steady_clock;

Heartbeat::Heartbeat(v1::ExpertWorker::Stub& stub, int64_t every_ms, int64_t deadline_ms)
    : stub_(stub),
      every_ms_(every_ms),
      deadline_ms_(deadline_ms),
      next_(Clock::now() + std::chrono::milliseconds(every_ms)) {}

Heartbeat::~Heartbeat() {
  if (question_ != nullptr) context_->TryCancel();
  queue_.Shutdown();
  void* tag = nullptr;
  bool ok = false;
  while (queue_.Next(&tag, &ok)) {
  }
}

void Heartbeat::Ask() {
  next_ = Clock::now() + std::chrono::milliseconds(every_ms_);
  context_ = std::make_unique<grpc::ClientContext>();
  context_->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(deadline_ms_));
  question_ = stub_.AsyncGetStats(context_.get(), {}, &queue_);
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
  question_.reset();
  if (status_.ok()) return absl::OkStatus();
  if (status_.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return absl::UnavailableError(
        fmt::format("no sign of life for {} ms: it is stopped, or the network to it is cut", deadline_ms_));
  }
  return absl::UnavailableError(status_.error_message());
}

}  // namespace numoe
