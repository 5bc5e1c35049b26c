#include "coordinator/clients/bench/device_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <random>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/execution/device/cpu/cpu_device.h"
#include "coordinator/execution/device/kv_block.h"
#include "expert_worker/tools/machine_limits.h"

namespace numoe::clients {
namespace {

constexpr double kSecondsPerPoint = 1.5;
constexpr size_t kColdBytes = 256 << 20;  // an operation reads this much, so that no cache helps it

struct MatrixShape {
  const char* name;
  int rows, cols;
};
struct Shape {
  const char* name;
  std::vector<MatrixShape> matrices;
  int heads, kv_heads, key_width, value_width;
  bool value_in_key;
  execution::CacheRow Row() const {
    return {.heads = kv_heads,
            .key_width = key_width,
            .value_width = value_in_key ? 0 : value_width,
            .plain_width = value_in_key ? key_width - value_width : 0};
  }
};
const Shape kShapes[] = {{"qwen3-30b",
                          {{"q", 4096, 2048}, {"kv", 512, 2048}, {"o", 2048, 4096}, {"head", 151936, 2048}},
                          32,
                          4,
                          128,
                          128,
                          false},
                         {"qwen3-235b",
                          {{"q", 8192, 4096}, {"kv", 512, 4096}, {"o", 4096, 8192}, {"head", 151936, 4096}},
                          64,
                          4,
                          128,
                          128,
                          false},
                         {"k2",
                          {{"q_a", 1536, 7168},
                           {"q_b", 12288, 1536},
                           {"kv_a", 576, 7168},
                           {"o", 7168, 8192},
                           {"shared_gate", 2048, 7168},
                           {"shared_down", 7168, 2048},
                           {"dense_down", 7168, 18432},
                           {"head", 163840, 7168}},
                          64,
                          1,
                          576,
                          512,
                          true},
                         {"deepseek-v3",
                          {{"q_a", 1536, 7168},
                           {"q_b", 24576, 1536},
                           {"kv_a", 576, 7168},
                           {"o", 7168, 16384},
                           {"shared_gate", 2048, 7168},
                           {"shared_down", 7168, 2048},
                           {"head", 129280, 7168}},
                          128,
                          1,
                          576,
                          512,
                          true}};

double Median(std::vector<double> values) {
  NUMOE_CHECK(!values.empty());
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

struct Work {
  std::string name;
  int tokens = 0;
  int context = 0;
  std::string format;     // of the data that is read
  double bytes = 0;       // that the operation has to read
  double operations = 0;  // of the kind whose peak is `peak`
  double peak = 0;        // tera-operations per second
};

class Bench {
 public:
  Bench(const DeviceBenchOptions& options, const Shape& shape, Isa isa, execution::CpuDevice& device,
        worker::MachineLimits& limits)
      : options_(options), shape_(shape), isa_(isa), device_(device), limits_(limits), bits_(64 << 20) {
    NUMOE_CHECK_EQ(shape.heads % shape.kv_heads, 0) << shape.name;
    NUMOE_CHECK(!shape.value_in_key || (shape.kv_heads == 1 && shape.value_width < shape.key_width));
    std::mt19937 random(3);
    for (size_t i = 0; i + 1 < bits_.size(); i += 2) {  // BF16 between 2^-8 and 2^-5, or FP8 codes
      bits_[i] = static_cast<std::byte>(random());
      bits_[i + 1] = static_cast<std::byte>((random() % 2 == 0 ? 0x3c : 0xbc) ^ (random() % 2 == 0 ? 0 : 1));
    }
    scales_.assign(size_t{1} << 20, 0.01f);
  }

  absl::Status Run() {
    for (const MatrixShape& matrix : shape_.matrices) RETURN_IF_ERROR(RunLinear(matrix));
    RETURN_IF_ERROR(RunAttention());
    return shape_.value_in_key ? RunLatentAttention() : absl::OkStatus();
  }

 private:
  // Prints the median time of `step(n)`, which does the work once on the n-th copy of the data.
  void Measure(const Work& work, const std::function<void(int n)>& step) {
    NUMOE_CHECK(work.bytes > 0 && work.operations > 0 && work.peak > 0) << work.name;
    std::vector<double> times, bandwidths, shares;
    step(0);
    const auto begin = std::chrono::steady_clock::now();
    const auto since = [](std::chrono::steady_clock::time_point t) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - t).count();
    };
    for (int n = 1; times.size() < 5 || (since(begin) < kSecondsPerPoint && times.size() < 300); ++n) {
      const double bandwidth =
          limits_.ReadBandwidth(std::clamp<size_t>(static_cast<size_t>(work.bytes), 4 << 20, 128 << 20)) *
          1e9;
      const auto start = std::chrono::steady_clock::now();
      step(n);
      times.push_back(since(start));
      bandwidths.push_back(work.bytes / times.back() / bandwidth);
      shares.push_back(std::max(work.bytes / bandwidth, work.operations / work.peak / 1e12) / times.back());
    }
    const double seconds = Median(times);
    std::puts(
        fmt::format(fmt::runtime(options_.json
                                     ? R"({{"shape": "{}", "op": "{}", "format": "{}", "isa": "{}", )"
                                       R"("tokens": {}, "context": {}, "ms": {:.4f}, "gb_per_s": {:.2f}, )"
                                       R"("bandwidth_share": {:.4f}, "tops": {:.4f}, "peak_share": {:.4f}, )"
                                       R"("limit_share": {:.4f}}})"
                                     : "{} {:12} {:5} {:7} {:6} {:7} {:10.4f} {:8.2f} {:8.3f} {:8.4f} "
                                       "{:8.3f} {:8.3f}"),
                    shape_.name, work.name, work.format, IsaName(isa_), work.tokens, work.context,
                    seconds * 1e3, work.bytes / seconds / 1e9, Median(bandwidths),
                    work.operations / seconds / 1e12, work.operations / seconds / 1e12 / work.peak,
                    Median(shares))
            .c_str());
    std::fflush(stdout);
  }

  static execution::StepLayout Layout(int tokens, int context, int blocks) {
    NUMOE_CHECK(0 < tokens && tokens <= context) << tokens << " of " << context;
    execution::StepLayout layout;
    layout.blocks_per_sequence_max = blocks;
    for (int b = 0; b < blocks; ++b) layout.block_tables.push_back(b);
    for (int t = 0; t < tokens; ++t) {
      layout.tokens.push_back(0);
      layout.positions.push_back(context - tokens + t);
      layout.sequences.push_back(0);
    }
    return layout;
  }

  MatrixView View(const MatrixShape& m) const {
    const bool fp8 = options_.dense_format == "fp8";
    const size_t bytes = static_cast<size_t>(m.rows) * static_cast<size_t>(m.cols) * (fp8 ? 1 : 2);
    NUMOE_CHECK_LE(bytes, bits_.size()) << m.name;
    MatrixView view{.format = fp8 ? MatrixFormat::kFp8Block : MatrixFormat::kBF16,
                    .rows = m.rows,
                    .cols = m.cols,
                    .data = absl::MakeSpan(bits_.data(), bytes)};
    if (fp8) {
      const int blocks = (m.rows + 127) / 128 * ((m.cols + 127) / 128);
      NUMOE_CHECK_LE(static_cast<size_t>(blocks), scales_.size());
      view.block_rows = view.block_cols = 128;
      view.scales = absl::MakeSpan(reinterpret_cast<const std::byte*>(scales_.data()),
                                   static_cast<size_t>(blocks) * sizeof(float));
    }
    return view;
  }

  absl::Status RunLinear(MatrixShape matrix) {
    // There are too few random bits for a whole head; the limits are the same for a part of it.
    matrix.rows = std::min(matrix.rows,
                           static_cast<int>(bits_.size() / 2 / static_cast<size_t>(matrix.cols)) / 128 * 128);
    NUMOE_CHECK_GT(matrix.rows, 0) << matrix.name;
    std::vector<execution::Matrix> copies;
    WeightFormat format = WeightFormat::kBf16;
    ASSIGN_OR_RETURN(format, ParseWeightFormat(options_.dense_format));
    const size_t bytes = PackedBytes(format, matrix.rows, matrix.cols);
    for (size_t total = 0; total < kColdBytes; total += bytes) {
      ASSIGN_OR_RETURN(copies.emplace_back(), device_.store().LoadMatrix(View(matrix)));
    }
    const execution::Tensor in = device_.store().NewTensor(matrix.cols),
                            out = device_.store().NewTensor(matrix.rows);
    for (const int tokens : options_.tokens) {
      const worker::Peaks peaks = limits_.MeasurePeaks(isa_);
      const ActivationFormat x_format = ChooseActivationFormat(isa_, format, tokens, Precision::kFast);
      const bool int8 = x_format == ActivationFormat::kInt8 || x_format == ActivationFormat::kInt8Pair ||
                        x_format == ActivationFormat::kInt16;
      const execution::StepLayout layout = Layout(tokens, tokens, 1);
      const std::unique_ptr<execution::Step> running = device_.Begin(layout);
      Measure({.name = matrix.name,
               .tokens = tokens,
               .format = options_.dense_format,
               .bytes = static_cast<double>(bytes),
               .operations = 2.0 * tokens * matrix.rows * matrix.cols,
               .peak = int8 && peaks.int8 ? *peaks.int8 : peaks.bf16.value_or(peaks.fp32)},
              [&](int n) {
                running->ops().Linear(running->all(), in,
                                      {{copies[static_cast<size_t>(n) % copies.size()], {out}}});
              });
    }
    return absl::OkStatus();
  }

  absl::Status ReserveCache() {
    const int longest = *std::max_element(options_.contexts.begin(), options_.contexts.end());
    execution::KvCacheSize size{.blocks = static_cast<int>(execution::KvBlocksFor(longest)),
                                .block_tokens = execution::kKvBlockTokens};
    ASSIGN_OR_RETURN(size.type, execution::ParseCacheType(options_.kv_cache_dtype));
    execution::CacheShape shape{.layers = 1, .row = shape_.Row(), .query_heads = shape_.heads};
    const uint64_t layer_bytes = execution::CacheMemory::BytesOf(shape, size);
    NUMOE_CHECK_GT(layer_bytes, 0u);
    blocks_ = size.blocks;
    row_bytes_ = static_cast<double>(layer_bytes) / blocks_ / execution::kKvBlockTokens;
    cache_name_ = execution::CacheTypeName(size.type);
    shape.layers = static_cast<int>(kColdBytes / layer_bytes) + 1;
    cache_ = device_.store().NewCache(shape);
    return device_.ReserveKvCache(size);
  }

  // Includes both halves of kv_b_proj, in the form that the device chooses. Their one copy stays in the
  // caches.
  absl::Status RunLatentAttention() {
    const Shape& s = shape_;
    NUMOE_CHECK(s.value_in_key && cache_.layers > 0) << "RunAttention has reserved the cache";
    const int nope = 128, value = 128, rope = s.key_width - s.value_width, latent = s.value_width;
    const std::vector<float> weights(static_cast<size_t>(s.heads * nope * latent), 0.01f);
    execution::LatentAttendArgs args{.query = device_.store().NewTensor(s.heads * (nope + rope)),
                                     .out = device_.store().NewTensor(s.heads * value),
                                     .absorbed = device_.store().NewTensor(s.heads * s.key_width),
                                     .context = device_.store().NewTensor(s.heads * latent),
                                     .scale = 0.1f};
    ASSIGN_OR_RETURN(args.key_up, device_.store().LoadHeads(weights, s.heads, nope, latent));
    ASSIGN_OR_RETURN(args.key_absorbed, device_.store().LoadHeads(weights, s.heads, latent, nope));
    ASSIGN_OR_RETURN(args.value_up, device_.store().LoadHeads(weights, s.heads, value, latent));
    const execution::LatentShape shape{
        .heads = s.heads, .nope = nope, .rope = rope, .value = value, .latent = latent};
    for (const int context : options_.contexts) {
      for (const int tokens : options_.tokens) {
        if (tokens > context) continue;
        const worker::Peaks peaks = limits_.MeasurePeaks(isa_);
        const execution::StepLayout layout = Layout(tokens, context, blocks_);
        const execution::TokenRun run{0, tokens};
        const std::unique_ptr<execution::Step> running = device_.Begin(layout);
        Measure({.name = "latent",
                 .tokens = tokens,
                 .context = context,
                 .format = cache_name_,
                 .bytes = row_bytes_ * context,
                 .operations = 2.0 * s.heads *
                               std::min(execution::AbsorbedOperations(layout, run, shape),
                                        execution::ExpandedOperations(layout, run, shape)),
                 .peak = peaks.bf16.value_or(peaks.fp32)},
                [&](int n) {
                  args.cache = cache_.At(n % cache_.layers);
                  running->ops().AttendLatent(running->all(), args);
                });
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunAttention() {
    const Shape& s = shape_;
    RETURN_IF_ERROR(ReserveCache());
    const execution::Tensor query = device_.store().NewTensor(s.heads * s.key_width),
                            out = device_.store().NewTensor(s.heads * s.value_width);
    for (const int context : options_.contexts) {
      for (const int tokens : options_.tokens) {
        if (tokens > context) continue;
        const worker::Peaks peaks = limits_.MeasurePeaks(isa_);
        double pairs = 0;  // of a token and a position that it attends to
        for (int t = 0; t < tokens; ++t) pairs += context - t;
        const execution::StepLayout layout = Layout(tokens, context, blocks_);
        const std::unique_ptr<execution::Step> running = device_.Begin(layout);
        Measure({.name = "attention",
                 .tokens = tokens,
                 .context = context,
                 .format = cache_name_,
                 .bytes = row_bytes_ * context,
                 .operations = 2.0 * pairs * s.heads * (s.key_width + s.value_width),
                 .peak = peaks.bf16.value_or(peaks.fp32)},
                [&](int n) {
                  running->ops().Attend(running->all(), {.cache = cache_.At(n % cache_.layers),
                                                         .query = query,
                                                         .out = out,
                                                         .heads = s.heads,
                                                         .key_width = s.key_width,
                                                         .value_width = s.value_width,
                                                         .kv_heads = s.kv_heads,
                                                         .value_in_key = s.value_in_key,
                                                         .scale = 0.1f});
                });
      }
    }
    return absl::OkStatus();
  }

  const DeviceBenchOptions& options_;
  const Shape& shape_;
  const Isa isa_;
  execution::CpuDevice& device_;
  worker::MachineLimits& limits_;
  std::vector<std::byte> bits_;
  std::vector<float> scales_;
  execution::Cache cache_;
  int blocks_ = 0;
  double row_bytes_ = 0;  // bytes of a token's keys and values in the cache
  const char* cache_name_ = "";
};

absl::Status RunAll(const DeviceBenchOptions& options) {
  const auto* shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const Shape& s) { return options.shape == s.name; });
  if (shape == std::end(kShapes)) {
    return absl::InvalidArgumentError("--shape=" + options.shape +
                                      ": expected qwen3-30b, qwen3-235b, k2 or deepseek-v3");
  }
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  std::optional<WeightFormat> dense_format;
  if (options.dense_format != "fp8") {  // which is stored as published
    ASSIGN_OR_RETURN(dense_format, ParseWeightFormat(options.dense_format));
  }
  ASSIGN_OR_RETURN(const std::vector<int> cpus, worker::BenchCpus(options.threads));
  ASSIGN_OR_RETURN(const auto device,
                   execution::CpuDevice::Create(
                       {.step_tokens_max = *std::max_element(options.tokens.begin(), options.tokens.end()),
                        .cpus = cpus,
                        .isa = isa,
                        .dense_format = dense_format}));
  ThreadPool pool({.name = "limits", .cpus = cpus});
  ASSIGN_OR_RETURN(worker::MachineLimits limits, worker::MachineLimits::Create(pool));
  if (!options.json)
    std::puts(
        "shape op       format isa    tokens context       ms     GB/s  of read     TOPS  of peak of limit");
  return Bench(options, *shape, isa, *device, limits).Run();
}

}  // namespace

int RunDeviceBench(const DeviceBenchOptions& options) {
  const absl::Status status = RunAll(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace numoe::clients
