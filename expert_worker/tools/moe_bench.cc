#include "expert_worker/tools/moe_bench.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/bf16.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/tools/bench_timing.h"
#include "expert_worker/tools/busy_processes.h"
#include "expert_worker/tools/cpu_quota.h"
#include "expert_worker/tools/machine_limits.h"
#include "expert_worker/tools/moe_routing.h"
#include "expert_worker/tools/synthetic_checkpoint.h"

namespace numoe::worker {
namespace {

constexpr int kCheckedTokens = 2;
constexpr double kSecondsPerPoint = 2.0;

struct Shape {
  const char* name;
  int hidden, width, experts, experts_per_token;
};
// "tiny" shows the cost of a call apart from its weights.
constexpr Shape kShapes[] = {{"k2", 7168, 2048, 384, 8},
                             {"deepseek-v3", 7168, 2048, 256, 8},
                             {"qwen3-30b", 2048, 768, 128, 8},
                             {"qwen3-235b", 4096, 1536, 128, 8},
                             {"tiny", 256, 128, 8, 8}};

using Row = std::vector<double>;

Row Multiply(const MatrixView& matrix, const Row& x) {
  NUMOE_CHECK_EQ(x.size(), static_cast<size_t>(matrix.cols));
  Row y(static_cast<size_t>(matrix.rows));
  std::vector<float> weights(x.size());
  for (int64_t r = 0; r < matrix.rows; ++r) {
    DecodeMatrix(matrix, r, r + 1, 0, matrix.cols, absl::MakeSpan(weights));
    y[static_cast<size_t>(r)] = std::inner_product(weights.begin(), weights.end(), x.begin(), 0.0);
  }
  return y;
}

// Returns the layer's output for one token in double precision, from the checkpoint's own weights.
absl::StatusOr<Row> Reference(const SyntheticCheckpoint& checkpoint, absl::Span<const float> hidden,
                              absl::Span<const ExpertId> experts, absl::Span<const float> weights) {
  const ModelConfig& config = checkpoint.config();
  NUMOE_CHECK_EQ(experts.size(), weights.size());
  NUMOE_CHECK_EQ(hidden.size(), static_cast<size_t>(config.hidden_size));
  Row out(hidden.size());
  const Row x(hidden.begin(), hidden.end());
  for (size_t e = 0; e < experts.size(); ++e) {
    const std::string module = fmt::format("model.layers.0.mlp.experts.{}.", experts[e]);
    ASSIGN_OR_RETURN(const MatrixView gate,
                     checkpoint.FindMatrix(module + "gate_proj", config.moe_intermediate_size,
                                           config.hidden_size, config));
    ASSIGN_OR_RETURN(
        const MatrixView up,
        checkpoint.FindMatrix(module + "up_proj", config.moe_intermediate_size, config.hidden_size, config));
    ASSIGN_OR_RETURN(const MatrixView down, checkpoint.FindMatrix(module + "down_proj", config.hidden_size,
                                                                  config.moe_intermediate_size, config));
    Row h = Multiply(gate, x);
    const Row u = Multiply(up, x);
    for (size_t i = 0; i < h.size(); ++i) h[i] = h[i] / (1 + std::exp(-h[i])) * u[i];
    const Row y = Multiply(down, h);
    for (size_t i = 0; i < y.size(); ++i) out[i] += weights[e] * y[i];
  }
  return out;
}

absl::StatusOr<double> RelativeError(const SyntheticCheckpoint& checkpoint, const MoeRouting& routing,
                                     const RoutedCall& call, absl::Span<const float> hidden,
                                     absl::Span<const float> out, int tokens) {
  const auto width = static_cast<size_t>(checkpoint.config().hidden_size);
  const auto per_token = static_cast<size_t>(checkpoint.config().experts_per_token);
  NUMOE_CHECK_EQ(hidden.size(), static_cast<size_t>(tokens) * width);
  NUMOE_CHECK_EQ(out.size(), hidden.size());
  double difference = 0, magnitude = 0;
  int checked = 0;
  for (size_t t = 0; t < static_cast<size_t>(tokens) && checked < kCheckedTokens; ++t) {
    std::vector<ExpertId> experts;
    std::vector<float> weights;
    for (size_t i = t * per_token; i < (t + 1) * per_token; ++i) {
      if (!routing.Holds(call.experts[i])) continue;
      experts.push_back(call.experts[i]);
      weights.push_back(call.weights[i]);
    }
    if (experts.empty()) continue;  // none of its experts is computed here
    ++checked;
    ASSIGN_OR_RETURN(const Row expected,
                     Reference(checkpoint, hidden.subspan(t * width, width), experts, weights));
    for (size_t i = 0; i < width; ++i) {
      difference += std::fabs(out[t * width + i] - expected[i]);
      magnitude += std::fabs(expected[i]);
    }
  }
  return magnitude > 0 ? difference / magnitude : 0;
}

struct Point {
  double ms = 0;
  double gb_per_s = 0;         // weight bytes of the distinct experts over the time
  double bandwidth_share = 0;  // compared with reading the same number of bytes at the same time
  double tops = 0;
  double error = 0;
  double bound_ms = 0;  // the time of the bytes at that bandwidth
  // Shares of the rate that remain.
  std::optional<double> busy_share;     // with a busy process on every CPU
  std::optional<double> quota_share;    // with the CPU time of half the CPUs
  std::optional<double> threads_share;  // with two threads on every CPU
};

// What takes CPU time from a layer call; empty without --disturb.
struct Disturbances {
  std::optional<BusyProcesses> busy;
  std::optional<CpuQuota> quota;
  std::unique_ptr<ExpertExecutor> crowded;  // the same experts, two threads on every CPU
};

double Median(std::vector<double> values) {
  NUMOE_CHECK(!values.empty());
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// Gaussian; with outliers every 478th channel is 20 to 50 times as large, as few channels of real models are.
std::vector<float> MakeHidden(int tokens, int width, bool outliers) {
  std::normal_distribution<float> normal;
  std::mt19937 random(static_cast<uint32_t>(tokens));
  std::vector<float> hidden(static_cast<size_t>(tokens) * static_cast<size_t>(width));
  for (size_t i = 0; i < hidden.size(); ++i) {
    const size_t channel = i % static_cast<size_t>(width);
    const bool large = outliers && channel % 478 == 7;
    hidden[i] = normal(random) * (large ? 20 + static_cast<float>(channel % 31) : 1);
  }
  return hidden;
}

class Bench {
 public:
  Bench(const MoeBenchOptions& options, const MoeRouting& routing, const SyntheticCheckpoint& checkpoint,
        ExpertExecutor& executor, MachineLimits& limits, const Disturbances& disturbances)
      : options_(options),
        routing_(routing),
        checkpoint_(checkpoint),
        executor_(executor),
        limits_(limits),
        disturbances_(disturbances),
        router_(routing) {}

  absl::StatusOr<Point> Run(int tokens) {
    const ModelConfig& config = checkpoint_.config();
    hidden_ = MakeHidden(tokens, config.hidden_size, options_.outliers);
    out_.resize(hidden_.size());
    RoutedCall call = router_.Make(tokens);
    RETURN_IF_ERROR(Execute(executor_, call, tokens).status());
    Point point;
    ASSIGN_OR_RETURN(point.error, RelativeError(checkpoint_, routing_, call, hidden_, out_, tokens));
    const double expert_bytes =
        static_cast<double>(executor_.WeightBytes()) / static_cast<double>(routing_.held);
    std::vector<double> times, rates, shares, bounds, operations;
    const auto begin = std::chrono::steady_clock::now();
    while (times.size() < 5 || (Since(begin) < kSecondsPerPoint && times.size() < 400)) {
      call = router_.Make(tokens);
      const double bytes = expert_bytes * call.distinct;
      const double limit = limits_.ReadBandwidth(static_cast<size_t>(bytes));
      ASSIGN_OR_RETURN(const double seconds, Execute(executor_, call, tokens));
      times.push_back(seconds);
      rates.push_back(bytes / seconds / 1e9);
      shares.push_back(rates.back() / limit);
      bounds.push_back(bytes / limit / 1e6);
      operations.push_back(2.0 * 3 * call.rows * config.hidden_size * config.moe_intermediate_size);
    }
    const double seconds = Median(times);
    point.ms = seconds * 1e3;
    point.gb_per_s = Median(rates);
    point.bandwidth_share = Median(shares);
    point.bound_ms = Median(bounds);
    point.tops = Median(operations) / seconds / 1e12;
    RETURN_IF_ERROR(Disturb(tokens, point));
    return point;
  }

 private:
  static double Since(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  // Returns the seconds of one call.
  absl::StatusOr<double> Execute(ExpertExecutor& executor, const RoutedCall& call, int tokens) {
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(executor.Execute({.layer = 0,
                                      .tokens = tokens,
                                      .experts_per_token = routing_.per_token,
                                      .hidden = hidden_,
                                      .experts = call.experts,
                                      .weights = call.weights},
                                     absl::MakeSpan(out_)));
    return Since(start);
  }

  // Returns the calls per second over some seconds. It is a mean, because losing the CPU makes a few calls
  // very slow.
  absl::StatusOr<double> Rate(ExpertExecutor& executor, int tokens) {
    double seconds = 0;
    int calls = 0;
    for (; seconds < kSecondsPerPoint / 2 || calls < 3; ++calls) {
      ASSIGN_OR_RETURN(const double one, Execute(executor, router_.Make(tokens), tokens));
      seconds += one;
    }
    return calls / seconds;
  }

  // Measured alternately, so that a change of the machine's speed affects all of them.
  absl::Status Disturb(int tokens, Point& point) {
    const auto& [busy, quota, crowded] = disturbances_;
    std::vector<double> beside_busy, in_quota, in_crowd;
    for (int turn = 0; turn < 3 && crowded != nullptr; ++turn) {
      ASSIGN_OR_RETURN(const double alone, Rate(executor_, tokens));
      busy->Resume();
      const absl::StatusOr<double> disturbed = Rate(executor_, tokens);
      busy->Pause();
      RETURN_IF_ERROR(disturbed.status());
      beside_busy.push_back(*disturbed / alone);
      ASSIGN_OR_RETURN(const double crowd, Rate(*crowded, tokens));
      in_crowd.push_back(crowd / alone);
      if (!quota) continue;
      RETURN_IF_ERROR(quota->Apply());
      const absl::StatusOr<double> limited = Rate(executor_, tokens);
      RETURN_IF_ERROR(quota->Lift());
      RETURN_IF_ERROR(limited.status());
      in_quota.push_back(*limited / alone);
    }
    if (!beside_busy.empty()) point.busy_share = Median(beside_busy);
    if (!in_quota.empty()) point.quota_share = Median(in_quota);
    if (!in_crowd.empty()) point.threads_share = Median(in_crowd);
    return absl::OkStatus();
  }

  const MoeBenchOptions& options_;
  const MoeRouting routing_;
  const SyntheticCheckpoint& checkpoint_;
  ExpertExecutor& executor_;
  MachineLimits& limits_;
  const Disturbances& disturbances_;
  MoeRouter router_;
  std::vector<float> hidden_, out_;
};

// Returns the peak of the unit that a format's fast kernels would use.
double PeakFor(const Peaks& peaks, WeightFormat format) {
  const bool integers = format != WeightFormat::kBf16 && format != WeightFormat::kFp8;
  if (integers && peaks.int8) return *peaks.int8;
  if (!integers && peaks.bf16) return *peaks.bf16;
  return peaks.fp32;
}

absl::StatusOr<MoeRouting> PlanRouting(const MoeBenchOptions& options, const Shape& shape) {
  MoeRouting routing{.per_token = shape.experts_per_token};
  if (options.routing != "uniform" && options.routing != "skewed")
    return absl::InvalidArgumentError("--routing=" + options.routing + ": expected uniform or skewed");
  routing.skewed = options.routing == "skewed";
  routing.held = options.experts == 0 ? shape.experts : options.experts;
  routing.experts = options.of == 0 ? routing.held : options.of;
  if (routing.experts % routing.held != 0) {
    return absl::InvalidArgumentError(
        fmt::format("--of={}: expected a multiple of --experts={}, so that a worker "
                    "of several could hold them",
                    routing.experts, routing.held));
  }
  if (routing.experts < routing.per_token) {
    return absl::InvalidArgumentError(
        fmt::format("{} experts to route to: expected at least the {} that a token takes", routing.experts,
                    routing.per_token));
  }
  return routing;
}

struct Line {
  const MoeBenchOptions& options;
  const MoeRouting& routing;
  Isa isa;
  size_t threads;
  int tokens;
  double peak;
};

std::string Format(const Line& line, const Point& p) {
  const double peak_share = p.tops / line.peak;
  std::string disturbed;
  for (const auto& [name, share] : {std::pair{"busy", p.busy_share}, std::pair{"quota", p.quota_share},
                                    std::pair{"threads", p.threads_share}}) {
    if (!line.options.disturb) continue;
    const std::string value = share ? fmt::format("{:.4f}", *share) : "null";
    disturbed += line.options.json ? fmt::format(R"(, "{}_share": {})", name, value)
                 : share           ? fmt::format(" {:6.1f}%", 100 * *share)
                                   : "       -";
  }
  if (!line.options.json) {
    return fmt::format("{:8} {:10.3f} {:8.1f} {:7.1f}% {:9.3f} {:7.1f}% {:9.5f}{}", line.tokens, p.ms,
                       p.gb_per_s, 100 * p.bandwidth_share, p.tops, 100 * peak_share, p.error, disturbed);
  }
  return fmt::format(
      R"({{"shape": "{}", "format": "{}", "isa": "{}", "threads": {}, "tokens": {}, "routing": "{}", )"
      R"("experts": {}, "of": {}, "ms": {:.4f}, "gb_per_s": {:.2f}, "bandwidth_share": {:.4f}, )"
      R"("bandwidth_ms": {:.4f}, "tops": {:.4f}, "peak_share": {:.4f}, "error": {:.6f}{}}})",
      line.options.shape, line.options.format, IsaName(line.isa), line.threads, line.tokens,
      line.options.routing, line.routing.held, line.routing.experts, p.ms, p.gb_per_s, p.bandwidth_share,
      p.bound_ms, p.tops, peak_share, p.error, disturbed);
}

absl::Status RunAll(const MoeBenchOptions& options) {
  const auto* shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const Shape& s) { return options.shape == s.name; });
  if (shape == std::end(kShapes)) {
    return absl::InvalidArgumentError("--shape=" + options.shape +
                                      ": expected k2, deepseek-v3, qwen3-30b, qwen3-235b or tiny");
  }
  ASSIGN_OR_RETURN(const MoeRouting routing, PlanRouting(options, *shape));
  ASSIGN_OR_RETURN(const WeightFormat format, ParseWeightFormat(options.format));
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  ASSIGN_OR_RETURN(const Precision precision, ParsePrecision(options.activations));
  ASSIGN_OR_RETURN(const std::vector<int> cpus, BenchCpus(options.threads));
  Disturbances disturbances;
  if (options.disturb) {  // before any thread is started
    ASSIGN_OR_RETURN(BusyProcesses started, BusyProcesses::Start(cpus));
    disturbances.busy.emplace(std::move(started));
    absl::StatusOr<CpuQuota> quota = CpuQuota::Create(static_cast<double>(cpus.size()) / 2);
    if (quota.ok()) disturbances.quota.emplace(*std::move(quota));
    if (!quota.ok())
      std::fprintf(stderr, "no CPU quota: %s\n", std::string(quota.status().message()).c_str());
  }
  const SyntheticCheckpoint checkpoint({.hidden_size = shape->hidden,
                                        .intermediate_size = shape->width,
                                        .experts = routing.experts,
                                        .experts_per_token = routing.per_token,
                                        .format = format});
  const auto load = [&](size_t threads) {
    return ExpertExecutor::Load(checkpoint, checkpoint.config(),
                                {.slice = {.mode = SliceMode::kExpert,
                                           .worker_index = 0,
                                           .worker_count = routing.experts / routing.held},
                                 .format = format,
                                 .isa = isa,
                                 .precision = precision,
                                 .threads = static_cast<int>(threads),
                                 .numa_nodes = {0}});
  };
  ASSIGN_OR_RETURN(const auto executor, load(cpus.size()));
  if (options.disturb) {
    ASSIGN_OR_RETURN(disturbances.crowded, load(2 * cpus.size()));
  }
  const ScopedCaller caller(&executor->Callers());
  ThreadPool pool({.name = "limits", .cpus = cpus});
  ASSIGN_OR_RETURN(MachineLimits limits, MachineLimits::Create(pool));
  if (!options.json) {
    std::puts(executor->Describe().c_str());
    std::puts(
        options.disturb
            ? "  tokens         ms     GB/s  of read      TOPS  of peak     error    busy   quota threads"
            : "  tokens         ms     GB/s  of read      TOPS  of peak     error");
  }
  Bench bench(options, routing, checkpoint, *executor, limits, disturbances);
  for (const int tokens : options.tokens) {
    const double peak =
        PeakFor(limits.MeasurePeaks(isa), format);  // for each point, because the machine may be shared
    ASSIGN_OR_RETURN(const Point point, bench.Run(tokens));
    std::puts(Format({options, routing, isa, cpus.size(), tokens, peak}, point).c_str());
    std::fflush(stdout);
  }
  return absl::OkStatus();
}

}  // namespace

int RunMoeBench(const MoeBenchOptions& options) {
  const absl::Status status = RunAll(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-kernel-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace numoe::worker
