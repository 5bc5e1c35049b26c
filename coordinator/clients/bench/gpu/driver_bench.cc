// Checks one after the other what the device expects of driver and host: each check is a line with its time
// or its error. Run this first on a new machine, because its errors explain later failures.
#include <fmt/format.h>

#include <chrono>
#include <future>
#include <memory>
#include <thread>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/topology/node_memory.h"
#include "coordinator/clients/bench/gpu/gpu_bench.h"
#include "coordinator/execution/device/cuda/kernels/elementwise.h"
#include "coordinator/execution/device/cuda/kernels/handover.h"

namespace numoe::clients {
namespace {

// A check that takes longer than this waits for the waiting kernel.
constexpr auto kBlocks = std::chrono::seconds(3);
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr int64_t kConverted = 1 << 16;  // values
// The fp32 values that are read come before the BF16 values that are written.
static_assert(kConverted * sizeof(float) <= 2 * kConverted * sizeof(execution::cuda::Bf16));

class DriverBench {
 public:
  DriverBench(execution::cuda::Runtime& runtime, const DriverSizes& sizes, const BenchReport& report)
      : runtime_(runtime), sizes_(sizes), report_(report) {}

  absl::Status Run() {
    NUMOE_CHECK_EQ(sizes_.pinned_bytes % kHugePageBytes, 0u);
    NUMOE_CHECK_GE(sizes_.pinned_bytes, 3 * kConverted * sizeof(execution::cuda::Bf16));
    ASSIGN_OR_RETURN(stream_, runtime_.NewStream());
    ASSIGN_OR_RETURN(other_, runtime_.NewStream(/*urgent=*/true));
    ASSIGN_OR_RETURN(device_, runtime_.Allocate(sizes_.pinned_bytes));
    ASSIGN_OR_RETURN(shared_, NodeMemory::Allocate(2 * sizes_.pinned_bytes, {.shared = true}));
    RETURN_IF_ERROR(PopulatePages(shared_.bytes()));
    CheckPinning();
    CheckCapture();
    CheckBesideAWaitingKernel();
    return failed_ == 0 ? absl::OkStatus() : absl::InternalError(fmt::format("{} checks failed", failed_));
  }

 private:
  absl::Span<std::byte> Half(int half) {
    NUMOE_CHECK(half == 0 || half == 1) << half;
    return shared_.bytes().subspan(static_cast<size_t>(half) * sizes_.pinned_bytes, sizes_.pinned_bytes);
  }

  void Say(const std::string& what, const absl::Status& status, double seconds, double bytes = 0) {
    nlohmann::ordered_json line{{"op", "driver"}, {"what", what}, {"gpu", runtime_.facts().name}};
    line["ok"] = status.ok();
    if (!status.ok()) line["error"] = std::string(status.message());
    line["us"] = seconds * 1e6;
    if (bytes > 0 && seconds > 0) line["gb_per_s"] = bytes / seconds / 1e9;
    report_(line);
    failed_ += status.ok() ? 0 : 1;
  }
  template <typename Body>
  bool Try(const std::string& what, double bytes, Body body) {
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status status = body();
    Say(what, status, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), bytes);
    return status.ok();
  }
  absl::Status Keep(absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> memory) {
    if (!memory.ok()) return memory.status();
    pinned_ = *std::move(memory);
    return absl::OkStatus();
  }

  void CheckPinning() {
    const auto bytes = static_cast<double>(sizes_.pinned_bytes);
    const auto pin = [&] { return Keep(runtime_.RegisterHost(Half(0))); };
    if (!Try("pin shared memory", bytes, pin)) return;
    Try("copy from it", bytes, [&] {
      runtime_.Copy(device_->device(), pinned_->host(), sizes_.pinned_bytes, stream_);
      return runtime_.Synchronize(stream_);
    });
    Try("read it in a kernel", kConverted * 4.0, [&] {
      execution::cuda::LaunchConvert(As<const float>(pinned_), As<execution::cuda::Bf16>(device_), kConverted,
                                     stream_);
      return runtime_.Synchronize(stream_);
    });
    Try("unpin it", bytes, [&] {
      pinned_.reset();
      return absl::OkStatus();
    });
  }

  // The memory of a worker that has returned is pinned while the first step with it is captured.
  void CheckCapture() {
    Try("pin in a capture, and run the graph", 0, [&]() -> absl::Status {
      RETURN_IF_ERROR(runtime_.BeginCapture(stream_));
      execution::cuda::LaunchConvert(
          As<const float>(device_), As<execution::cuda::Bf16>(device_) + 2 * kConverted, kConverted, stream_);
      const absl::Status pinned = Keep(runtime_.RegisterHost(Half(0)));
      ASSIGN_OR_RETURN(const auto graph, runtime_.EndCapture(stream_));
      RETURN_IF_ERROR(pinned);
      runtime_.Launch(*graph, stream_);
      return runtime_.Synchronize(stream_);
    });
  }

  // Starts a kernel that waits for a reply, which never comes, until it is released.
  absl::Status Wait(const execution::cuda::Memory& words, const execution::cuda::Memory& step) {
    NUMOE_CHECK(release_ == nullptr) << "only one kernel waits at a time";
    auto* const host = new (words.host()) Words;
    execution::cuda::HandoverStep waiting{.endpoint_count = 1};
    auto* const device = reinterpret_cast<Words*>(words.device());
    waiting.endpoints[0].reply_published = &device->published;
    release_ = &host->release;
    RETURN_IF_ERROR(runtime_.CopyNow(step.device(), &waiting, sizeof waiting));
    execution::cuda::LaunchAwaitReplies(
        {.step = reinterpret_cast<const execution::cuda::HandoverStep*>(step.device()),
         .fault = &device->fault,
         .release = &device->release},
        stream_);
    return absl::OkStatus();
  }

  // What runs next to a step must not wait for the step's end, which may depend on the reply of a dead
  // worker. The other checks (`must` false) only report what waits.
  template <typename Body>
  void TryBeside(const std::string& what, bool must, Body body) {
    if (blocked_) return;
    Try(what + " beside a waiting kernel", 0, [&]() -> absl::Status {
      auto done = std::async(std::launch::async, body);
      blocked_ = done.wait_for(kBlocks) == std::future_status::timeout;
      NUMOE_CHECK(release_ != nullptr) << "a kernel is waiting";
      if (blocked_) __atomic_store_n(release_, 1u, __ATOMIC_RELEASE);
      const absl::Status status = done.get();
      if (!blocked_ || (!must && status.ok())) return status;
      return absl::UnavailableError("it waits for the kernel; the following checks are left out");
    });
  }

  void CheckBesideAWaitingKernel() {
    const auto words = runtime_.AllocateHost(sizeof(Words));
    const auto step = runtime_.Allocate(sizeof(execution::cuda::HandoverStep));
    const auto host = runtime_.AllocateHost(sizes_.pinned_bytes);
    const bool waits = Try("start a waiting kernel", 0, [&]() -> absl::Status {
      RETURN_IF_ERROR(words.status());
      RETURN_IF_ERROR(step.status());
      RETURN_IF_ERROR(host.status());
      return Wait(**words, **step);
    });
    if (!waits) return;
    std::vector<std::byte> pageable(sizes_.pinned_bytes);
    TryBeside("copy from pinned memory on another stream", /*must=*/true, [&] {
      runtime_.Copy(device_->device(), (*host)->host(), sizes_.pinned_bytes, other_);
      return runtime_.Synchronize(other_);
    });
    TryBeside("copy from pageable memory", /*must=*/true,
              [&] { return runtime_.CopyNow(device_->device(), pageable.data(), pageable.size()); });
    TryBeside("run a kernel on another stream", /*must=*/true, [&] {
      execution::cuda::LaunchConvert(As<const float>(device_),
                                     As<execution::cuda::Bf16>(device_) + 2 * kConverted, kConverted, other_);
      return runtime_.Synchronize(other_);
    });
    std::unique_ptr<execution::cuda::Memory> second;
    TryBeside("pin", /*must=*/false, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(second, runtime_.RegisterHost(Half(1)));
      return absl::OkStatus();
    });
    TryBeside("unpin", /*must=*/false, [&] {
      second.reset();
      return absl::OkStatus();
    });
    TryBeside("allocate and free", /*must=*/false, [&] { return runtime_.Allocate(1 << 20).status(); });
    __atomic_store_n(release_, 1u, __ATOMIC_RELEASE);
    Try("release the waiting kernel", 0, [&]() -> absl::Status {
      RETURN_IF_ERROR(runtime_.Synchronize(stream_));
      const auto& fault = reinterpret_cast<const Words*>((*words)->host())->fault;
      if (fault.kind == static_cast<uint32_t>(execution::cuda::FaultKind::kReleased)) return absl::OkStatus();
      return absl::InternalError(fmt::format("found note {}, expected that it was released", fault.kind));
    });
    pinned_.reset();
  }

  // Host memory that the waiting kernel polls.
  struct Words {
    uint32_t published = 0;
    uint32_t release = 0;
    execution::cuda::HandoverFault fault;
  };

  execution::cuda::Runtime& runtime_;
  const DriverSizes sizes_;
  const BenchReport& report_;
  execution::cuda::Stream stream_ = nullptr, other_ = nullptr;
  NodeMemory shared_;
  std::unique_ptr<execution::cuda::Memory> device_, pinned_;
  uint32_t* release_ = nullptr;
  bool blocked_ = false;
  int failed_ = 0;
};

}  // namespace

absl::Status BenchDriver(execution::cuda::Runtime& runtime, const DriverSizes& sizes,
                         const BenchReport& report) {
  return DriverBench(runtime, sizes, report).Run();
}

}  // namespace numoe::clients
