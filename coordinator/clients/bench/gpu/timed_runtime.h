// TimedRuntime: a runtime that also tells how long the last graph ran on the device.
//
// Hands everything on to the runtime that it owns, and records events around every launch of a graph. One
// thread, as the runtime itself.
#pragma once

#include <memory>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "coordinator/execution/device/cuda/runtime.h"

namespace numoe::cuda {

class TimedRuntime final : public Runtime {
 public:
  static absl::StatusOr<std::unique_ptr<TimedRuntime>> Create(std::unique_ptr<Runtime> inner) {
    auto timed = std::unique_ptr<TimedRuntime>(new TimedRuntime(std::move(inner)));
    ASSIGN_OR_RETURN(timed->first_, timed->inner_->NewTimestamp());
    ASSIGN_OR_RETURN(timed->last_, timed->inner_->NewTimestamp());
    return timed;
  }

  /// Of the graph launched since the last call; nullopt: none was. Its stream has been waited for.
  absl::StatusOr<std::optional<double>> TakeGraphSeconds() {
    if (!std::exchange(launched_, false)) return std::nullopt;
    ASSIGN_OR_RETURN(const double seconds, inner_->SecondsBetween(*first_, *last_));
    return seconds;
  }

  const DeviceFacts& facts() const override { return inner_->facts(); }
  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes) override { return inner_->Allocate(bytes); }
  absl::StatusOr<std::unique_ptr<Memory>> AllocateHost(size_t bytes) override {
    return inner_->AllocateHost(bytes);
  }
  absl::StatusOr<std::unique_ptr<Memory>> RegisterHost(absl::Span<std::byte> memory) override {
    return inner_->RegisterHost(memory);
  }
  absl::StatusOr<std::unique_ptr<Memory>> RegisterHostReadOnly(absl::Span<const std::byte> memory) override {
    return inner_->RegisterHostReadOnly(memory);
  }
  absl::StatusOr<Stream> NewStream(bool urgent) override { return inner_->NewStream(urgent); }
  absl::StatusOr<Event> NewEvent() override { return inner_->NewEvent(); }
  void Copy(void* to, const void* from, size_t bytes, Stream stream) override {
    inner_->Copy(to, from, bytes, stream);
  }
  absl::Status CopyNow(void* to, const void* from, size_t bytes) override {
    return inner_->CopyNow(to, from, bytes);
  }
  void Clear(void* memory, size_t bytes, Stream stream) override { inner_->Clear(memory, bytes, stream); }
  void Multiply(const MatrixProduct& product, Stream stream) override { inner_->Multiply(product, stream); }
  void Record(Event event, Stream stream) override { inner_->Record(event, stream); }
  void Wait(Stream stream, Event event) override { inner_->Wait(stream, event); }
  absl::Status Await(Event event) override { return inner_->Await(event); }
  absl::Status Synchronize(Stream stream) override { return inner_->Synchronize(stream); }
  absl::StatusOr<std::unique_ptr<Timestamp>> NewTimestamp() override { return inner_->NewTimestamp(); }
  void Stamp(Timestamp& stamp, Stream stream) override { inner_->Stamp(stamp, stream); }
  absl::StatusOr<double> SecondsBetween(const Timestamp& first, const Timestamp& last) override {
    return inner_->SecondsBetween(first, last);
  }
  absl::Status BeginCapture(Stream stream) override { return inner_->BeginCapture(stream); }
  absl::StatusOr<std::unique_ptr<Graph>> EndCapture(Stream stream) override {
    return inner_->EndCapture(stream);
  }
  void Launch(Graph& graph, Stream stream) override {
    inner_->Stamp(*first_, stream);
    inner_->Launch(graph, stream);
    inner_->Stamp(*last_, stream);
    launched_ = true;
  }

 private:
  explicit TimedRuntime(std::unique_ptr<Runtime> inner) : inner_(std::move(inner)) {}

  const std::unique_ptr<Runtime> inner_;
  std::unique_ptr<Timestamp> first_, last_;
  bool launched_ = false;
};

}  // namespace numoe::cuda
