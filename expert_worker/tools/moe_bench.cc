#include "expert_worker/tools/moe_bench.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <set>

#include "common/base/status.h"
#include "common/formats/bf16.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/tools/bench_timing.h"
#include "expert_worker/tools/machine_limits.h"
#include "expert_worker/tools/synthetic_checkpoint.h"

namespace numoe {
namespace {

constexpr int kCheckedTokens = 2;
constexpr double kSecondsPerPoint = 2.0;

struct Shape {
  const char* name;
  int hidden, width, experts_per_token;
};
constexpr Shape kShapes[] = {{"k2", 7168, 2048, 8},
                             {"deepseek-v3", 7168, 2048, 8},
                             {"qwen3-30b", 2048, 768, 8},
                             {"qwen3-235b", 4096, 1536, 8}};

struct Call {
  std::vector<ExpertId> experts;
  std::vector<float> weights;
  int distinct = 0;
};

// Distinct experts for each token. Uniform calls deal experts from a shuffled deck, so that consecutive calls
// touch different ones.
class Router {
 public:
  Router(int experts, int per_token, bool skewed) : per_token_(per_token), skewed_(skewed), deck_(experts) {
    std::iota(deck_.begin(), deck_.end(), 0);
    for (int e = 0; e < experts; ++e) popularity_.push_back(1.0 / (e + 1));
    std::shuffle(deck_.begin(), deck_.end(), random_);
  }

  Call Make(int tokens) {
    Call call;
    for (int t = 0; t < tokens; ++t) {
      std::set<ExpertId> chosen;
      while (static_cast<int>(chosen.size()) < per_token_) chosen.insert(Next());
      call.experts.insert(call.experts.end(), chosen.begin(), chosen.end());
    }
    call.weights.assign(call.experts.size(), 1.0f / static_cast<float>(per_token_));
    call.distinct = static_cast<int>(std::set<ExpertId>(call.experts.begin(), call.experts.end()).size());
    return call;
  }

 private:
  ExpertId Next() {
    if (skewed_) return std::discrete_distribution<ExpertId>(popularity_.begin(), popularity_.end())(random_);
    if (dealt_ == deck_.size()) {
      std::shuffle(deck_.begin(), deck_.end(), random_);
      dealt_ = 0;
    }
    return deck_[dealt_++];
  }

  const int per_token_;
  const bool skewed_;
  std::mt19937 random_{3};
  std::vector<ExpertId> deck_;
  size_t dealt_ = 0;
  std::vector<double> popularity_;
};

using Row = std::vector<double>;

Row Multiply(const MatrixView& matrix, const Row& x) {
  Row y(static_cast<size_t>(matrix.rows));
  std::vector<float> weights(x.size());
  for (int64_t r = 0; r < matrix.rows; ++r) {
    DecodeMatrix(matrix, r, r + 1, 0, matrix.cols, absl::MakeSpan(weights));
    y[static_cast<size_t>(r)] = std::inner_product(weights.begin(), weights.end(), x.begin(), 0.0);
  }
  return y;
}

// The layer's output of one token in double precision, from the checkpoint's own weights.
absl::StatusOr<Row> Reference(const SyntheticCheckpoint& checkpoint, absl::Span<const float> hidden,
                              absl::Span<const ExpertId> experts, absl::Span<const float> weights) {
  const ModelConfig& config = checkpoint.config();
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

absl::StatusOr<double> RelativeError(const SyntheticCheckpoint& checkpoint, const Call& call,
                                     absl::Span<const float> hidden, absl::Span<const float> out,
                                     int tokens) {
  const auto width = static_cast<size_t>(checkpoint.config().hidden_size);
  const auto per_token = static_cast<size_t>(checkpoint.config().experts_per_token);
  double difference = 0, magnitude = 0;
  for (size_t t = 0; t < static_cast<size_t>(std::min(tokens, kCheckedTokens)); ++t) {
    ASSIGN_OR_RETURN(const Row expected,
                     Reference(checkpoint, hidden.subspan(t * width, width),
                               absl::MakeConstSpan(call.experts).subspan(t * per_token, per_token),
                               absl::MakeConstSpan(call.weights).subspan(t * per_token, per_token)));
    for (size_t i = 0; i < width; ++i) {
      difference += std::fabs(out[t * width + i] - expected[i]);
      magnitude += std::fabs(expected[i]);
    }
  }
  return difference / magnitude;
}

struct Point {
  double ms = 0;
  double gb_per_s = 0;         // weight bytes of the distinct experts over the time
  double bandwidth_share = 0;  // of what reading as many bytes reached beside it
  double tops = 0;
  double error = 0;
};

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

class Bench {
 public:
  Bench(const MoeBenchOptions& options, const SyntheticCheckpoint& checkpoint, ExpertExecutor& executor,
        MachineLimits& limits)
      : checkpoint_(checkpoint),
        executor_(executor),
        limits_(limits),
        router_(options.experts, checkpoint.config().experts_per_token, options.skewed) {}

  absl::StatusOr<Point> Run(int tokens) {
    const ModelConfig& config = checkpoint_.config();
    const auto values = static_cast<size_t>(tokens) * static_cast<size_t>(config.hidden_size);
    std::normal_distribution<float> normal;
    std::mt19937 random(static_cast<uint32_t>(tokens));
    std::vector<float> hidden(values), out(values);
    for (float& x : hidden) x = normal(random);
    Call call = router_.Make(tokens);
    const auto execute = [&] {
      return executor_.Execute({.layer = 0,
                                .tokens = tokens,
                                .experts_per_token = config.experts_per_token,
                                .hidden = hidden,
                                .experts = call.experts,
                                .weights = call.weights},
                               absl::MakeSpan(out));
    };
    RETURN_IF_ERROR(execute());
    ASSIGN_OR_RETURN(const double error, RelativeError(checkpoint_, call, hidden, out, tokens));
    const double expert_bytes =
        static_cast<double>(executor_.WeightBytes()) / static_cast<double>(config.num_experts);
    std::vector<double> times, rates, shares;
    const auto begin = std::chrono::steady_clock::now();
    const auto elapsed = [](std::chrono::steady_clock::time_point since) {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count();
    };
    while (times.size() < 5 || (elapsed(begin) < kSecondsPerPoint && times.size() < 400)) {
      call = router_.Make(tokens);
      const double bytes = expert_bytes * call.distinct;
      const double limit = limits_.ReadBandwidth(static_cast<size_t>(bytes));
      const auto start = std::chrono::steady_clock::now();
      RETURN_IF_ERROR(execute());
      times.push_back(elapsed(start));
      rates.push_back(bytes / times.back() / 1e9);
      shares.push_back(rates.back() / limit);
    }
    const double operations =
        2.0 * 3 * tokens * config.experts_per_token * config.hidden_size * config.moe_intermediate_size;
    const double seconds = Median(times);
    return Point{seconds * 1e3, Median(rates), Median(shares), operations / seconds / 1e12, error};
  }

 private:
  const SyntheticCheckpoint& checkpoint_;
  ExpertExecutor& executor_;
  MachineLimits& limits_;
  Router router_;
};

// The peak of the unit that a format's fast kernels would use.
double PeakFor(const Peaks& peaks, WeightFormat format) {
  const bool integers = format != WeightFormat::kBf16 && format != WeightFormat::kFp8;
  if (integers && peaks.int8) return *peaks.int8;
  if (!integers && peaks.bf16) return *peaks.bf16;
  return peaks.fp32;
}

absl::Status RunAll(const MoeBenchOptions& options) {
  const auto* shape = std::find_if(std::begin(kShapes), std::end(kShapes),
                                   [&](const Shape& s) { return options.shape == s.name; });
  if (shape == std::end(kShapes)) {
    return absl::InvalidArgumentError("--shape=" + options.shape +
                                      ": expected k2, deepseek-v3, qwen3-30b or qwen3-235b");
  }
  if (options.experts < shape->experts_per_token) {
    return absl::InvalidArgumentError(fmt::format("--experts={}: expected at least the {} that a token takes",
                                                  options.experts, shape->experts_per_token));
  }
  ASSIGN_OR_RETURN(const WeightFormat format, ParseWeightFormat(options.format));
  ASSIGN_OR_RETURN(const Isa isa, SelectIsa(options.isa));
  ASSIGN_OR_RETURN(const std::vector<int> cpus, BenchCpus(options.threads));
  const SyntheticCheckpoint checkpoint({.hidden_size = shape->hidden,
                                        .intermediate_size = shape->width,
                                        .experts = options.experts,
                                        .experts_per_token = shape->experts_per_token,
                                        .format = format});
  ASSIGN_OR_RETURN(const auto executor, ExpertExecutor::Load(checkpoint, checkpoint.config(),
                                                             {.format = options.format,
                                                              .isa = options.isa,
                                                              .threads = static_cast<int>(cpus.size())}));
  executor->BindCaller();
  ThreadPool pool({.name = "limits", .cpus = cpus});
  ASSIGN_OR_RETURN(MachineLimits limits, MachineLimits::Create(pool));
  if (!options.json) {
    std::puts(executor->Describe().c_str());
    std::puts("  tokens         ms     GB/s  of read      TOPS  of peak     error");
  }
  Bench bench(options, checkpoint, *executor, limits);
  for (const int tokens : options.tokens) {
    const double peak =
        PeakFor(limits.MeasurePeaks(isa), format);  // beside each point: the machine may be shared
    ASSIGN_OR_RETURN(const Point p, bench.Run(tokens));
    const std::string line =
        options.json
            ? fmt::format(
                  R"({{"shape": "{}", "format": "{}", "isa": "{}", "threads": {}, "tokens": {}, "routing": "{}", )"
                  R"("ms": {:.4f}, "gb_per_s": {:.2f}, "bandwidth_share": {:.4f}, "tops": {:.4f}, )"
                  R"("peak_share": {:.4f}, "error": {:.6f}}})",
                  shape->name, options.format, IsaName(isa), cpus.size(), tokens,
                  options.skewed ? "skewed" : "uniform", p.ms, p.gb_per_s, p.bandwidth_share, p.tops,
                  p.tops / peak, p.error)
            : fmt::format("{:8} {:10.3f} {:8.1f} {:7.1f}% {:9.3f} {:7.1f}% {:9.5f}", tokens, p.ms, p.gb_per_s,
                          100 * p.bandwidth_share, p.tops, 100 * p.tops / peak, p.error);
    std::puts(line.c_str());
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

}  // namespace numoe
