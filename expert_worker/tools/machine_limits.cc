#include "expert_worker/tools/machine_limits.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/topology/topology.h"
#include "expert_worker/tools/bench_timing.h"

namespace numoe::worker {
namespace {

constexpr size_t kReadChunk = 512 << 10;  // what a thread claims at a time
static_assert(kReadChunk % 64 == 0, "ReadAll reads whole lines");
constexpr int kPeakRounds = 7;
constexpr int64_t kPeakLoops = 400'000;

// Reads whole lines in order; the sum keeps the compiler from dropping the loads.
uint64_t ReadAll(const std::byte* data, size_t bytes) {
  using Line = uint64_t __attribute__((vector_size(16)));
  Line sums[4] = {};
  for (size_t i = 0; i < bytes; i += 64) {
    for (size_t part = 0; part < 4; ++part) {
      Line line;
      std::memcpy(&line, data + i + part * 16, sizeof line);
      sums[part] |= line;
    }
  }
  const Line sum = sums[0] | sums[1] | sums[2] | sums[3];
  return sum[0] | sum[1];
}

// Fourteen independent chains of one instruction. They are assembler text, so that they need no compiler flag
// and nothing is optimised away. The clobber lists name the registers that all instruction sets have.
#define NUMOE_CHAIN(op, reg, n) op " %%" reg "15,%%" reg "14,%%" reg #n "\n"
#define NUMOE_CHAINS(op, reg) \
  NUMOE_CHAIN(op, reg, 0)     \
  NUMOE_CHAIN(op, reg, 1)     \
  NUMOE_CHAIN(op, reg, 2)     \
  NUMOE_CHAIN(op, reg, 3)     \
  NUMOE_CHAIN(op, reg, 4)     \
  NUMOE_CHAIN(op, reg, 5)     \
  NUMOE_CHAIN(op, reg, 6)     \
  NUMOE_CHAIN(op, reg, 7)     \
  NUMOE_CHAIN(op, reg, 8)     \
  NUMOE_CHAIN(op, reg, 9)     \
  NUMOE_CHAIN(op, reg, 10) NUMOE_CHAIN(op, reg, 11) NUMOE_CHAIN(op, reg, 12) NUMOE_CHAIN(op, reg, 13)
#define NUMOE_PEAK_LOOP(name, op, reg)                                                                     \
  void name(int64_t loops) {                                                                               \
    asm volatile("vxorps %%xmm14,%%xmm14,%%xmm14\nvxorps %%xmm15,%%xmm15,%%xmm15\n" ::: "xmm14", "xmm15"); \
    for (int64_t i = 0; i < loops; ++i) {                                                                  \
      asm volatile(NUMOE_CHAINS(op, reg)::                                                                 \
                       : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",   \
                         "xmm10", "xmm11", "xmm12", "xmm13");                                              \
    }                                                                                                      \
    asm volatile("vzeroupper" ::: "memory");                                                               \
  }
NUMOE_PEAK_LOOP(FmaYmm, "vfmadd231ps", "ymm")
NUMOE_PEAK_LOOP(FmaZmm, "vfmadd231ps", "zmm")
NUMOE_PEAK_LOOP(Bf16Zmm, "vdpbf16ps", "zmm")
NUMOE_PEAK_LOOP(Int8Zmm, "vpdpbusd", "zmm")
constexpr double kChains = 14;

// AVX2's dot product of INT8 takes three instructions: products are added in pairs, pairs are widened to 32
// bits, and these are added to the sum.
#define NUMOE_DOT(n, sum)                 \
  "vpmaddubsw %%ymm15,%%ymm14,%%ymm" #n   \
  "\n"                                    \
  "vpmaddwd %%ymm13,%%ymm" #n ",%%ymm" #n \
  "\n"                                    \
  "vpaddd %%ymm" #n ",%%ymm" #sum ",%%ymm" #sum "\n"
void DotYmm(int64_t loops) {
  for (int64_t i = 0; i < loops; ++i) {
    asm volatile(NUMOE_DOT(0, 6) NUMOE_DOT(1, 7) NUMOE_DOT(2, 8) NUMOE_DOT(3, 9) NUMOE_DOT(4, 10)
                     NUMOE_DOT(5, 11)::
                         : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
                           "xmm10", "xmm11");
  }
  asm volatile("vzeroupper" ::: "memory");
}
constexpr double kDots = 6;

// SSE2 uses a multiply and an add.
void MulAddXmm(int64_t loops) {
  for (int64_t i = 0; i < loops; ++i) {
    asm volatile(
        "mulps %%xmm15,%%xmm0\naddps %%xmm15,%%xmm1\nmulps %%xmm15,%%xmm2\naddps %%xmm15,%%xmm3\n"
        "mulps %%xmm15,%%xmm4\naddps %%xmm15,%%xmm5\nmulps %%xmm15,%%xmm6\naddps %%xmm15,%%xmm7\n"
        "mulps %%xmm15,%%xmm8\naddps %%xmm15,%%xmm9\nmulps %%xmm15,%%xmm10\naddps %%xmm15,%%xmm11\n"
        "mulps %%xmm15,%%xmm12\naddps %%xmm15,%%xmm13\n" ::
            : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
              "xmm11", "xmm12", "xmm13");
  }
}

// Tiles of 16 rows x 64 bytes, four accumulators: 16 x 16 x 64 INT8 or 16 x 16 x 32 BF16 products each.
struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t column_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
#define NUMOE_TILE_LOOP(name, op)                                                                   \
  void name(int64_t loops) {                                                                        \
    const TileConfig config;                                                                        \
    asm volatile(                                                                                   \
        "ldtilecfg %0\ntilezero %%tmm4\ntilezero %%tmm5\ntilezero %%tmm6\n"                         \
        "tilezero %%tmm0\ntilezero %%tmm1\ntilezero %%tmm2\ntilezero %%tmm3\n" ::"m"(config));      \
    for (int64_t i = 0; i < loops; ++i) {                                                           \
      asm volatile(op " %tmm4,%tmm5,%tmm0\n" op " %tmm4,%tmm5,%tmm1\n" op " %tmm4,%tmm5,%tmm2\n" op \
                      " %tmm4,%tmm5,%tmm3\n");                                                      \
    }                                                                                               \
    asm volatile("tilerelease");                                                                    \
  }
NUMOE_TILE_LOOP(Bf16Tiles, "tdpbf16ps")
NUMOE_TILE_LOOP(Int8Tiles, "tdpbssd")

// Returns the median over some rounds of all threads running `loop` at once, in tera-operations per second.
double Peak(ThreadPool& pool, void (*loop)(int64_t), int64_t loops, double operations_per_loop) {
  std::vector<double> rates;
  for (int round = 0; round < kPeakRounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.Run(pool.threads(), [&](int, int) { loop(loops); });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    rates.push_back(operations_per_loop * static_cast<double>(loops) * pool.threads() / seconds / 1e12);
  }
  std::nth_element(rates.begin(), rates.begin() + kPeakRounds / 2, rates.end());
  return rates[kPeakRounds / 2];
}

}  // namespace

absl::StatusOr<std::vector<int>> BenchCpus(int threads) {
  ASSIGN_OR_RETURN(const Topology topology, DetectTopology());
  std::vector<int> cpus;
  for (const NumaNode& node : topology.nodes) cpus.insert(cpus.end(), node.cpus.begin(), node.cpus.end());
  const size_t all = cpus.size();
  if (threads > 0) cpus.resize(static_cast<size_t>(threads));
  for (size_t i = all; i < cpus.size(); ++i) cpus[i] = cpus[i - all];
  return cpus;
}

absl::StatusOr<MachineLimits> MachineLimits::Create(ThreadPool& pool, size_t bytes) {
  NUMOE_CHECK(bytes >= kReadChunk && bytes % kReadChunk == 0);
  ASSIGN_OR_RETURN(NodeMemory memory, NodeMemory::Allocate(bytes));
  pool.Run(static_cast<int>(bytes / kReadChunk),
           [&](int chunk, int) { std::memset(memory.data() + chunk * kReadChunk, chunk, kReadChunk); });
  return MachineLimits(pool, std::move(memory));
}

double MachineLimits::ReadBandwidth(size_t bytes) {
  const size_t all = memory_.size() / kReadChunk;
  const size_t chunks = std::clamp<size_t>(bytes / kReadChunk, 1, all);
  std::atomic<uint64_t> sum{0};
  const auto start = std::chrono::steady_clock::now();
  pool_->Run(static_cast<int>(chunks), [&](int chunk, int) {
    const size_t at = (next_ + static_cast<size_t>(chunk)) % all * kReadChunk;
    sum.fetch_or(ReadAll(memory_.data() + at, kReadChunk), std::memory_order_relaxed);
  });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  next_ = (next_ + chunks) % all;
  return static_cast<double>(chunks * kReadChunk) / seconds / 1e9;
}

Peaks MachineLimits::MeasurePeaks(Isa isa) {
  const auto peak = [&](void (*loop)(int64_t), double operations) {
    return Peak(*pool_, loop, kPeakLoops, kChains * operations);
  };
  switch (isa) {
    case Isa::kScalar:
      return {.fp32 = peak(MulAddXmm, 4), .bf16 = {}, .int8 = {}};
    case Isa::kAvx2:
      return {.fp32 = peak(FmaYmm, 16), .bf16 = {}, .int8 = Peak(*pool_, DotYmm, kPeakLoops, kDots * 64)};
    case Isa::kAvx512:
      return {.fp32 = peak(FmaZmm, 32), .bf16 = peak(Bf16Zmm, 64), .int8 = peak(Int8Zmm, 128)};
    case Isa::kAmx:
      return {.fp32 = peak(FmaZmm, 32),
              .bf16 = Peak(*pool_, Bf16Tiles, kPeakLoops / 16, 4.0 * 2 * 16 * 16 * 32),
              .int8 = Peak(*pool_, Int8Tiles, kPeakLoops / 16, 4.0 * 2 * 16 * 16 * 64)};
  }
  return {};
}

int RunLimitsBench(int threads, bool json) {
  const absl::StatusOr<std::vector<int>> cpus = BenchCpus(threads);
  if (!cpus.ok()) return std::fprintf(stderr, "%s\n", cpus.status().ToString().c_str()), 2;
  ThreadPool pool({.name = "bench", .cpus = *cpus});
  absl::StatusOr<MachineLimits> limits = MachineLimits::Create(pool);
  if (!limits.ok()) return std::fprintf(stderr, "%s\n", limits.status().ToString().c_str()), 2;
  const Quantiles pass = Measure(9, [&] { limits->ReadBandwidth(size_t{1} << 30); });
  const double bandwidth = static_cast<double>(size_t{1} << 30) / pass.p50 / 1e3;
  if (!json)
    std::fputs(fmt::format("{} threads, read {:.1f} GB/s\n", pool.threads(), bandwidth).c_str(), stdout);
  const auto text = [&](std::optional<double> tops) {
    return tops ? fmt::format("{:.3f}", *tops) : std::string(json ? "null" : "-");
  };
  for (const Isa isa : {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
    if (!SelectIsa(isa).ok()) continue;
    const Peaks peaks = limits->MeasurePeaks(isa);
    std::fputs(
        fmt::format(fmt::runtime(json ? R"({{"isa": "{}", "threads": {}, "read_gb_per_s": {:.2f}, )"
                                        R"("fp32_tops": {}, "bf16_tops": {}, "int8_tops": {}}})"
                                        "\n"
                                      : "{:8} ({} threads, {:.1f} GB/s): {} TOPS fp32, {} BF16, {} INT8\n"),
                    IsaName(isa), pool.threads(), bandwidth, text(peaks.fp32), text(peaks.bf16),
                    text(peaks.int8))
            .c_str(),
        stdout);
  }
  return 0;
}

}  // namespace numoe::worker
