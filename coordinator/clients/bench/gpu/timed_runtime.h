// TimedRuntime: a runtime that also measures how long the last graph ran on the device.
//
// It passes every call on to the runtime that it owns, and records events around every launch of a graph. For
// use by one thread, like every runtime.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::clients {

class TimedRuntime final : public execution::cuda::Runtime {
 public:
  static absl::StatusOr<std::unique_ptr<TimedRuntime>> Create(
      std::unique_ptr<execution::cuda::Runtime> inner) {
    auto timed = std::unique_ptr<TimedRuntime>(new TimedRuntime(std::move(inner)));
    ASSIGN_OR_RETURN(timed->first_, timed->inner_->NewTimestamp());
    ASSIGN_OR_RETURN(timed->last_, timed->inner_->NewTimestamp());
    return timed;
  }

  /// Returns the time in seconds of the graph that was launched since the last call; nullopt if none was.
  /// REQUIRES: the graph's stream has been synchronised.
  absl::StatusOr<std::optional<double>> TakeGraphSeconds() {
    if (!std::exchange(launched_, false)) return std::nullopt;
    ASSIGN_OR_RETURN(const double seconds, inner_->SecondsBetween(*first_, *last_));
    return seconds;
  }

  const execution::cuda::DeviceFacts& facts() const override { return inner_->facts(); }
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> Allocate(size_t bytes) override {
    return inner_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> AllocateHost(size_t bytes) override {
    return inner_->AllocateHost(bytes);
  }
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> RegisterHost(
      absl::Span<std::byte> memory) override {
    return inner_->RegisterHost(memory);
  }
  absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> RegisterHostReadOnly(
      absl::Span<const std::byte> memory) override {
    return inner_->RegisterHostReadOnly(memory);
  }
  absl::StatusOr<execution::cuda::Stream> NewStream(bool urgent) override {
    return inner_->NewStream(urgent);
  }
  absl::StatusOr<execution::cuda::Event> NewEvent() override { return inner_->NewEvent(); }
  void Copy(void* to, const void* from, size_t bytes, execution::cuda::Stream stream) override {
    inner_->Copy(to, from, bytes, stream);
  }
  absl::Status CopyNow(void* to, const void* from, size_t bytes) override {
    return inner_->CopyNow(to, from, bytes);
  }
  void Clear(void* memory, size_t bytes, execution::cuda::Stream stream) override {
    inner_->Clear(memory, bytes, stream);
  }
  void Multiply(const execution::cuda::MatrixProduct& product, execution::cuda::Stream stream) override {
    inner_->Multiply(product, stream);
  }
  void Record(execution::cuda::Event event, execution::cuda::Stream stream) override {
    inner_->Record(event, stream);
  }
  void Wait(execution::cuda::Stream stream, execution::cuda::Event event) override {
    inner_->Wait(stream, event);
  }
  absl::Status Await(execution::cuda::Event event) override { return inner_->Await(event); }
  absl::Status Synchronize(execution::cuda::Stream stream) override { return inner_->Synchronize(stream); }
  absl::StatusOr<std::unique_ptr<execution::cuda::Timestamp>> NewTimestamp() override {
    return inner_->NewTimestamp();
  }
  void Stamp(execution::cuda::Timestamp& stamp, execution::cuda::Stream stream) override {
    inner_->Stamp(stamp, stream);
  }
  absl::StatusOr<double> SecondsBetween(const execution::cuda::Timestamp& first,
                                        const execution::cuda::Timestamp& last) override {
    return inner_->SecondsBetween(first, last);
  }
  absl::Status BeginCapture(execution::cuda::Stream stream) override { return inner_->BeginCapture(stream); }
  absl::StatusOr<std::unique_ptr<execution::cuda::Graph>> EndCapture(
      execution::cuda::Stream stream) override {
    return inner_->EndCapture(stream);
  }
  void Launch(execution::cuda::Graph& graph, execution::cuda::Stream stream) override {
    inner_->Stamp(*first_, stream);
    inner_->Launch(graph, stream);
    inner_->Stamp(*last_, stream);
    launched_ = true;
  }

 private:
  explicit TimedRuntime(std::unique_ptr<execution::cuda::Runtime> inner) : inner_(std::move(inner)) {}

  const std::unique_ptr<execution::cuda::Runtime> inner_;
  std::unique_ptr<execution::cuda::Timestamp> first_, last_;
  bool launched_ = false;
};

}  // namespace numoe::clients
