#include "coordinator/clients/bench/gpu/bench_context.h"

#include <algorithm>
#include <cstring>
#include <random>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/clients/bench/gpu/read_memory.h"

namespace numoe::clients {
namespace {

constexpr int kWarmUps = 2;
constexpr int kReadBlocks = 2;                     // for each multiprocessor
constexpr size_t kReadAtOnce = 16;                 // bytes that LaunchReadMemory reads at once
constexpr size_t kRandomBytes = size_t{32} << 20;  // random bytes; larger memory has copies of them

}  // namespace

double Median(std::vector<double> values) {
  NUMOE_CHECK(!values.empty());
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

absl::StatusOr<BenchContext> BenchContext::Create(execution::cuda::Runtime& runtime, const LimitSizes& sizes,
                                                  BenchReport report) {
  NUMOE_CHECK(sizes.repetitions > 0 && sizes.matrix > 0 && report != nullptr);
  BenchContext context(runtime, sizes, std::move(report));
  ASSIGN_OR_RETURN(context.stream_, runtime.NewStream());
  ASSIGN_OR_RETURN(context.first_, runtime.NewTimestamp());
  ASSIGN_OR_RETURN(context.last_, runtime.NewTimestamp());
  RETURN_IF_ERROR(context.MeasureLimits());
  return context;
}

absl::StatusOr<double> BenchContext::Seconds(absl::FunctionRef<void(int)> body,
                                             absl::FunctionRef<void(int)> before) {
  std::vector<double> times;
  for (int n = 0; n < kWarmUps + sizes_.repetitions; ++n) {
    before(n);
    runtime_.Stamp(*first_, stream_);
    body(n);
    runtime_.Stamp(*last_, stream_);
    RETURN_IF_ERROR(runtime_.Synchronize(stream_));
    if (n < kWarmUps) continue;
    ASSIGN_OR_RETURN(times.emplace_back(), runtime_.SecondsBetween(*first_, *last_));
  }
  return Median(std::move(times));
}

absl::StatusOr<double> BenchContext::GraphSeconds(int launches, absl::FunctionRef<void(int)> body) {
  NUMOE_CHECK_GT(launches, 0);
  RETURN_IF_ERROR(runtime_.Synchronize(stream_));
  RETURN_IF_ERROR(runtime_.BeginCapture(stream_));
  for (int n = 0; n < launches; ++n) body(n);
  ASSIGN_OR_RETURN(const auto graph, runtime_.EndCapture(stream_));
  ASSIGN_OR_RETURN(const double seconds, Seconds([&](int) { runtime_.Launch(*graph, stream_); }));
  return seconds / launches;
}

absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> BenchContext::UploadBytes(const void* values,
                                                                                   size_t bytes) {
  ASSIGN_OR_RETURN(auto memory, runtime_.Allocate(std::max<size_t>(bytes, 1)));
  RETURN_IF_ERROR(runtime_.CopyNow(memory->device(), values, bytes));
  return memory;
}

absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> BenchContext::Random(size_t bytes) {
  NUMOE_CHECK_GT(bytes, size_t{0});
  std::mt19937_64 random(bytes);
  std::vector<uint64_t> drawn(std::min(bytes, kRandomBytes) / sizeof(uint64_t) + 1);
  for (uint64_t& four : drawn) four = (random() & 0x80ff80ff80ff80ffu) | 0x3c003c003c003c00u;
  ASSIGN_OR_RETURN(auto memory, runtime_.Allocate(bytes));
  const size_t piece = std::min(bytes, kRandomBytes);
  RETURN_IF_ERROR(runtime_.CopyNow(memory->device(), drawn.data(), piece));
  for (size_t at = piece; at < bytes; at += piece)
    runtime_.Copy(memory->device() + at, memory->device(), std::min(piece, bytes - at), stream_);
  RETURN_IF_ERROR(runtime_.Synchronize(stream_));
  return memory;
}

absl::StatusOr<std::unique_ptr<execution::cuda::Memory>> BenchContext::Zeros(size_t bytes) {
  ASSIGN_OR_RETURN(auto memory, runtime_.Allocate(bytes));
  runtime_.Clear(memory->device(), bytes, stream_);
  return memory;
}

absl::Status BenchContext::MeasureLimits() {
  NUMOE_CHECK(sizes_.read_bytes % (2 * kReadAtOnce) == 0) << "each half is read and copied in whole vectors";
  const int blocks = kReadBlocks * runtime_.facts().multiprocessors;
  ASSIGN_OR_RETURN(const auto memory, Random(sizes_.read_bytes));
  ASSIGN_OR_RETURN(const auto sums, Zeros(static_cast<size_t>(blocks) * kReadThreads * sizeof(uint32_t)));
  const auto bytes = static_cast<double>(sizes_.read_bytes);
  ASSIGN_OR_RETURN(const double read, Seconds([&](int) {
                     LaunchReadMemory({.from = memory->device(),
                                       .bytes = sizes_.read_bytes,
                                       .blocks = blocks,
                                       .sums = As<uint32_t>(sums)},
                                      stream_);
                   }));
  limits_.read_gb_per_s = bytes / read / 1e9;
  const size_t half = sizes_.read_bytes / 2;
  ASSIGN_OR_RETURN(const double copy, Seconds([&](int) {
                     runtime_.Copy(memory->device() + half, memory->device(), half, stream_);
                   }));
  limits_.copy_gb_per_s = bytes / copy / 1e9;
  const int n = sizes_.matrix;
  const size_t matrix_bytes = static_cast<size_t>(n) * static_cast<size_t>(n) * sizeof(execution::cuda::Bf16);
  ASSIGN_OR_RETURN(const auto a, Random(matrix_bytes));
  ASSIGN_OR_RETURN(const auto b, Random(matrix_bytes));
  ASSIGN_OR_RETURN(const auto c, Zeros(matrix_bytes));
  const execution::cuda::MatrixProduct product{.a = a->device(),
                                               .b = b->device(),
                                               .c = c->device(),
                                               .rows = n,
                                               .columns = n,
                                               .depth = n,
                                               .a_stride = n,
                                               .b_stride = n,
                                               .c_stride = n};
  ASSIGN_OR_RETURN(const double multiply, Seconds([&](int) { runtime_.Multiply(product, stream_); }));
  limits_.bf16_tflops = 2.0 * n * n * n / multiply / 1e12;
  return MeasurePcie();
}

absl::Status BenchContext::MeasurePcie() {
  ASSIGN_OR_RETURN(const auto host, runtime_.AllocateHost(sizes_.pcie_bytes));
  ASSIGN_OR_RETURN(const auto device, runtime_.Allocate(sizes_.pcie_bytes));
  std::memset(host->host(), 1, sizes_.pcie_bytes);
  const auto bytes = static_cast<double>(sizes_.pcie_bytes);
  ASSIGN_OR_RETURN(const double to, Seconds([&](int) {
                     runtime_.Copy(device->device(), host->host(), sizes_.pcie_bytes, stream_);
                   }));
  ASSIGN_OR_RETURN(const double from, Seconds([&](int) {
                     runtime_.Copy(host->host(), device->device(), sizes_.pcie_bytes, stream_);
                   }));
  limits_.to_device_gb_per_s = bytes / to / 1e9;
  limits_.from_device_gb_per_s = bytes / from / 1e9;
  return absl::OkStatus();
}

void BenchContext::Report(nlohmann::ordered_json line, double seconds, double bytes, double flops) const {
  line["gpu"] = runtime_.facts().name;
  line["us"] = seconds * 1e6;
  if (bytes > 0) {
    line["gb_per_s"] = bytes / seconds / 1e9;
    line["bandwidth_share"] = bytes / seconds / 1e9 / limits_.read_gb_per_s;
  }
  if (flops > 0) {
    line["tflops"] = flops / seconds / 1e12;
    line["peak_share"] = flops / seconds / 1e12 / limits_.bf16_tflops;
  }
  line["limit_read_gb_per_s"] = limits_.read_gb_per_s;
  line["limit_bf16_tflops"] = limits_.bf16_tflops;
  report_(line);
}

}  // namespace numoe::clients
