#include "tests/cuda_host/simulated_runtime.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/formats/bf16.h"
#include "tests/cuda_host/machine.h"
#include "tests/cuda_host/schedule.h"

namespace numoe::execution::cuda {
namespace {

using Work = std::vector<std::function<void()>>;

struct SimulatedStream;

struct SimulatedEvent {
  uint64_t recorded = 0;              // records that were enqueued
  uint64_t done = 0;                  // records that have run
  SimulatedStream* stream = nullptr;  // stream of the last record
};

struct Operation {
  std::function<void()> work;
  SimulatedEvent* record = nullptr;
  SimulatedEvent* wait = nullptr;  // waits until this number of the event's records have run:
  uint64_t records = 0;
};

struct SimulatedStream {
  std::deque<Operation> operations;

  // Returns false if the stream is empty or the next operation has to wait.
  bool RunOne() {
    if (operations.empty()) return false;
    const Operation& next = operations.front();
    if (next.wait != nullptr && next.wait->done < next.records) return false;
    if (next.work) next.work();
    if (next.record != nullptr) next.record->done = next.records;
    operations.pop_front();
    return true;
  }
};

class SimulatedMemory final : public Memory {
 public:
  SimulatedMemory(size_t bytes, uint64_t* used, bool host_too)
      : owned_(new std::byte[bytes]), data_(owned_.get()), bytes_(bytes), used_(used), host_too_(host_too) {
    std::memset(data_, 0xff, bytes);
    *used_ += bytes;
  }
  ~SimulatedMemory() override { *used_ -= bytes_; }
  std::byte* device() const override { return data_; }
  std::byte* host() const override { return host_too_ ? data_ : nullptr; }
  size_t bytes() const override { return bytes_; }

 private:
  const std::unique_ptr<std::byte[]> owned_;
  std::byte* const data_;
  const size_t bytes_;
  uint64_t* const used_;
  const bool host_too_;
};

// Whole pages that are pinned in place. If they were unmapped before they are unpinned, memory that is mapped
// at their address later would be taken for pinned memory, and copies would read the old pages.
class RegisteredMemory final : public Memory {
 public:
  struct All {
    std::mutex mutex;
    std::list<absl::Span<std::byte>> pieces;
  };
  /// REQUIRES: `all` is locked.
  RegisteredMemory(absl::Span<std::byte> memory, All* all)
      : all_(all), place_(all->pieces.insert(all->pieces.end(), memory)) {}
  ~RegisteredMemory() override {
    const std::lock_guard lock(all_->mutex);
    NUMOE_CHECK(IsMapped(*place_)) << "memory was unmapped while it was pinned";
    all_->pieces.erase(place_);
  }
  static bool IsMapped(absl::Span<std::byte> memory) {
    return msync(memory.data(), memory.size(), MS_ASYNC) == 0;
  }
  std::byte* device() const override { return place_->data(); }
  std::byte* host() const override { return place_->data(); }
  size_t bytes() const override { return place_->size(); }

 private:
  All* const all_;
  const std::list<absl::Span<std::byte>>::iterator place_;
};

class SimulatedGraph final : public Graph {
 public:
  explicit SimulatedGraph(Work work) : work_(std::move(work)) {}
  const Work& work() const { return work_; }

 private:
  const Work work_;
};

class SimulatedTimestamp final : public Timestamp {
 public:
  std::optional<std::chrono::steady_clock::time_point> at;
};

// Plain loops that replace the matrix library.
void MultiplyOnHost(const MatrixProduct& p) {
  const auto* a = static_cast<const uint16_t*>(p.a);
  const auto* b = static_cast<const uint16_t*>(p.b);
  for (int r = 0; r < p.rows; ++r) {
    for (int c = 0; c < p.columns; ++c) {
      double sum = 0;
      for (int d = 0; d < p.depth; ++d)
        sum += double{DecodeBf16(a[r * p.a_stride + d])} * double{DecodeBf16(b[c * p.b_stride + d])};
      const int64_t at = r * p.c_stride + c;
      if (p.c_is_float) {
        float& out = static_cast<float*>(p.c)[at];
        out = static_cast<float>(sum) + (p.accumulate ? out : 0.0f);
      } else {
        uint16_t& out = static_cast<uint16_t*>(p.c)[at];
        out = EncodeBf16(static_cast<float>(sum) + (p.accumulate ? DecodeBf16(out) : 0.0f));
      }
    }
  }
}

class SimulatedRuntime final : public Runtime {
 public:
  explicit SimulatedRuntime(const SimulatedFacts& facts)
      : facts_{.name = "simulated GPU",
               .compute_major = facts.compute_major,
               .multiprocessors = facts.multiprocessors,
               .shared_bytes_max = facts.shared_bytes_max,
               .memory_bytes = facts.memory_bytes,
               .free_bytes = facts.memory_bytes,
               .driver_version = 13000},
        pinned_bytes_(facts.pinned_bytes),
        others_first_(facts.others_first) {
    cuda_host::SetBlockSharedBytesMax(static_cast<size_t>(facts.shared_bytes_max));
    cuda_host::SetLaunchSink(
        [this](Stream stream, std::function<void()> launch) { Enqueue(stream, std::move(launch)); });
  }
  ~SimulatedRuntime() override {
    cuda_host::SetLaunchSink({});
    cuda_host::SetBlockSharedBytesMax(cuda_host::kBlockSharedBytesMax);
  }

  const DeviceFacts& facts() const override { return facts_; }

  absl::StatusOr<std::unique_ptr<Memory>> Allocate(size_t bytes) override {
    NUMOE_CHECK(!capturing_) << "memory is allocated while a stream is captured";
    if (used_ + bytes > facts_.memory_bytes) {
      return absl::ResourceExhaustedError(
          fmt::format("the GPU's memory: {} bytes requested, {} of {} are free", bytes,
                      facts_.memory_bytes - used_, facts_.memory_bytes));
    }
    return std::make_unique<SimulatedMemory>(bytes, &used_, /*host_too=*/false);
  }
  absl::StatusOr<std::unique_ptr<Memory>> AllocateHost(size_t bytes) override {
    NUMOE_CHECK(!capturing_) << "memory is allocated while a stream is captured";
    if (used_on_host_ + bytes > pinned_bytes_) {
      return absl::ResourceExhaustedError(fmt::format("pinned host memory: {} bytes requested, {} are free",
                                                      bytes, pinned_bytes_ - used_on_host_));
    }
    return std::make_unique<SimulatedMemory>(bytes, &used_on_host_, /*host_too=*/true);
  }
  absl::StatusOr<std::unique_ptr<Memory>> RegisterHost(absl::Span<std::byte> memory) override {
    const auto page = static_cast<uintptr_t>(getpagesize());
    if (reinterpret_cast<uintptr_t>(memory.data()) % page != 0 || !RegisteredMemory::IsMapped(memory))
      return absl::InternalError(
          "found memory that is not mapped or does not begin with a page, expected whole pages");
    const std::lock_guard lock(registered_.mutex);
    for (const absl::Span<std::byte> other : registered_.pieces) {
      if (memory.data() < other.data() + other.size() && other.data() < memory.data() + memory.size())
        return absl::InternalError("found memory that is already pinned in part, expected unpinned memory");
    }
    return std::make_unique<RegisteredMemory>(memory, &registered_);
  }
  absl::StatusOr<std::unique_ptr<Memory>> RegisterHostReadOnly(absl::Span<const std::byte> memory) override {
    // Kernels run in this process, so a kernel that writes to read-only memory ends it.
    return RegisterHost({const_cast<std::byte*>(memory.data()), memory.size()});
  }

  absl::StatusOr<Stream> NewStream(bool) override {
    streams_.push_back(std::make_unique<SimulatedStream>());
    return reinterpret_cast<Stream>(streams_.back().get());
  }
  absl::StatusOr<Event> NewEvent() override {
    events_.push_back(std::make_unique<SimulatedEvent>());
    return reinterpret_cast<Event>(events_.back().get());
  }
  void Copy(void* to, const void* from, size_t bytes, Stream stream) override {
    Enqueue(stream, [=] { std::memcpy(to, from, bytes); });
  }
  absl::Status CopyNow(void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return absl::OkStatus();
  }
  void Clear(void* memory, size_t bytes, Stream stream) override {
    Enqueue(stream, [=] { std::memset(memory, 0, bytes); });
  }
  void Multiply(const MatrixProduct& product, Stream stream) override {
    Enqueue(stream, [=] { MultiplyOnHost(product); });
  }
  void Record(Event event, Stream stream) override {
    NUMOE_CHECK(!capturing_);
    SimulatedEvent& recorded = Of(event);
    recorded.stream = &Of(stream);
    Of(stream).operations.push_back({.record = &recorded, .records = ++recorded.recorded});
  }
  void Wait(Stream stream, Event event) override {
    NUMOE_CHECK(!capturing_);
    Of(stream).operations.push_back({.wait = &Of(event), .records = Of(event).recorded});
  }
  absl::Status Await(Event event) override {
    const SimulatedEvent& awaited = Of(event);
    while (awaited.done < awaited.recorded) {
      if (others_first_) RunOthers(*awaited.stream);
      Advance(*awaited.stream);
    }
    return absl::OkStatus();
  }
  absl::Status Synchronize(Stream stream) override {
    NUMOE_CHECK(!capturing_) << "a stream is waited for while it is captured";
    SimulatedStream& waited = Of(stream);
    while (!waited.operations.empty()) {
      if (others_first_) RunOthers(waited);
      Advance(waited);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<Timestamp>> NewTimestamp() override {
    return std::make_unique<SimulatedTimestamp>();
  }
  void Stamp(Timestamp& stamp, Stream stream) override {
    auto& recorded = static_cast<SimulatedTimestamp&>(stamp);
    recorded.at.reset();
    Enqueue(stream, [&recorded] { recorded.at = std::chrono::steady_clock::now(); });
  }
  absl::StatusOr<double> SecondsBetween(const Timestamp& first, const Timestamp& last) override {
    const auto &begin = static_cast<const SimulatedTimestamp&>(first).at,
               &end = static_cast<const SimulatedTimestamp&>(last).at;
    if (!begin || !end)
      return absl::InternalError("found a timestamp that was not reached yet; wait for its stream");
    return std::chrono::duration<double>(*end - *begin).count();
  }

  absl::Status BeginCapture(Stream) override {
    NUMOE_CHECK(!capturing_);
    capturing_ = true;
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Graph>> EndCapture(Stream) override {
    capturing_ = false;
    return std::make_unique<SimulatedGraph>(std::exchange(captured_, {}));
  }
  void Launch(Graph& graph, Stream stream) override {
    const Work& work = static_cast<SimulatedGraph&>(graph).work();
    for (const auto& step : work) Of(stream).operations.push_back({.work = step});
  }

 private:
  static SimulatedStream& Of(Stream stream) { return *reinterpret_cast<SimulatedStream*>(stream); }
  static SimulatedEvent& Of(Event event) { return *reinterpret_cast<SimulatedEvent*>(event); }
  void Enqueue(Stream stream, std::function<void()> step) {
    if (capturing_) {
      captured_.push_back(std::move(step));
    } else {
      Of(stream).operations.push_back({.work = std::move(step)});
    }
  }
  // Runs one operation, and those of other streams for which it waits.
  void Advance(SimulatedStream& stream) {
    while (!stream.RunOne()) {
      const Operation& next = stream.operations.front();
      NUMOE_CHECK(next.wait->stream != &stream && !next.wait->stream->operations.empty()) << "a deadlock";
      Advance(*next.wait->stream);
    }
  }
  // Runs all other streams as far as possible.
  void RunOthers(const SimulatedStream& but) {
    bool ran = true;
    while (std::exchange(ran, false)) {
      for (const auto& stream : streams_)
        while (stream.get() != &but && stream->RunOne()) ran = true;
    }
  }

  const DeviceFacts facts_;
  const uint64_t pinned_bytes_;
  const bool others_first_;
  uint64_t used_ = 0;
  uint64_t used_on_host_ = 0;
  RegisteredMemory::All registered_;
  std::vector<std::unique_ptr<SimulatedStream>> streams_;
  std::vector<std::unique_ptr<SimulatedEvent>> events_;
  bool capturing_ = false;
  Work captured_;
};

}  // namespace

std::unique_ptr<Runtime> NewSimulatedRuntime(const SimulatedFacts& facts) {
  return std::make_unique<SimulatedRuntime>(facts);
}

}  // namespace numoe::execution::cuda
