// The GPU's benchmark with small sizes: every part runs to its end on the twin of a GPU, with a worker in its
// own process, and reports its results. These tests do not judge the speed.
#include "coordinator/clients/bench/gpu/gpu_bench.h"

#include <unistd.h>

#include <random>

#include "coordinator/clients/bench/gpu/read_memory.h"
#include "coordinator/execution/model/step_overlap.h"
#include "gtest/gtest.h"
#include "tests/support/test_runtime.h"

namespace numoe::clients {
namespace {

constexpr LimitSizes kLimits{.read_bytes = 1 << 16, .pcie_bytes = 1 << 12, .matrix = 32, .repetitions = 3};

ModelConfig SmallConfig() {
  ModelConfig config = K2Config(/*layers=*/3, /*experts=*/8);
  config.hidden_size = 64;
  config.vocab_size = 96;
  config.max_position_embeddings = 256;
  config.num_heads = 2;
  config.q_lora_rank = 32;
  config.kv_lora_rank = 64;
  config.qk_nope_head_dim = 32;
  config.qk_rope_head_dim = config.rope.dim = 16;
  config.v_head_dim = 32;
  config.intermediate_size = 96;
  config.moe_intermediate_size = 64;
  config.experts_per_token = 2;
  return config;
}

// These tests come first: a worker is forked before there are threads, and sessions with workers start some.
TEST(BenchWorkerTest, ReportsWhyItDidNotStart) {
  const auto worker = BenchWorker::Start(
      {.socket = "/does/not/exist/socket", .hidden = 64, .experts = 8, .experts_per_token = 2});
  ASSERT_FALSE(worker.ok());
  EXPECT_NE(worker.status().message().find("did not start"), std::string::npos) << worker.status();
}

TEST(BenchWorkerTest, EndsWithItsOwner) {
  const std::string socket = ::testing::TempDir() + "/gpu-bench-end-" + std::to_string(getpid());
  auto worker = BenchWorker::Start({.socket = socket, .hidden = 64, .experts = 8, .experts_per_token = 2});
  ASSERT_TRUE(worker.ok()) << worker.status();
  EXPECT_EQ(access(socket.c_str(), F_OK), 0);
  worker->reset();
  EXPECT_NE(access(socket.c_str(), F_OK), 0);
}

class GpuBenchTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const ModelConfig config = SmallConfig();
    auto worker =
        BenchWorker::Start({.socket = ::testing::TempDir() + "/gpu-bench-" + std::to_string(getpid()),
                            .hidden = config.hidden_size,
                            .experts = config.num_experts,
                            .experts_per_token = config.experts_per_token,
                            .width = config.moe_intermediate_size,
                            .threads = 1});
    ASSERT_TRUE(worker.ok()) << worker.status();
    worker_ = *std::move(worker);
  }
  static void TearDownTestSuite() { worker_.reset(); }
  BenchContext Context() {
    runtime_ = NewTestRuntime();
    auto context = BenchContext::Create(*runtime_, kLimits, report_);
    EXPECT_TRUE(context.ok()) << context.status();
    return *std::move(context);
  }
  // Every result is a measured number; lines are found by what identifies them.
  void ExpectFigures(const std::vector<std::string>& figures) {
    for (const auto& line : lines_) {
      EXPECT_TRUE(line.at("gpu").is_string()) << line;
      for (const std::string& figure : figures) {
        ASSERT_TRUE(line.contains(figure)) << line;
        EXPECT_TRUE(line[figure].is_number_float()) << line;
        EXPECT_GT(line[figure].get<double>(), 0) << line;
      }
    }
  }

  static inline std::unique_ptr<BenchWorker> worker_;
  std::unique_ptr<execution::cuda::Runtime> runtime_;
  std::vector<nlohmann::ordered_json> lines_;
  const BenchReport report_ = [this](const nlohmann::ordered_json& line) { lines_.push_back(line); };
};

TEST_F(GpuBenchTest, ReadsEveryWordOnce) {
  const auto runtime = NewTestRuntime();
  const execution::cuda::Stream stream = *runtime->NewStream();
  for (const size_t pieces : {1, 1000, 3 * kReadThreads + 7, 40000}) {
    std::vector<uint32_t> words(pieces * 4);
    std::mt19937 random(static_cast<uint32_t>(pieces));
    uint32_t expected = 0;
    for (uint32_t& word : words) expected ^= word = static_cast<uint32_t>(random());
    constexpr int kBlocks = 3;
    std::vector<uint32_t> sums(kBlocks * kReadThreads);
    const auto from = *runtime->Allocate(words.size() * 4), out = *runtime->Allocate(sums.size() * 4);
    ASSERT_TRUE(runtime->CopyNow(from->device(), words.data(), words.size() * 4).ok());
    LaunchReadMemory(
        {.from = from->device(), .bytes = words.size() * 4, .blocks = kBlocks, .sums = As<uint32_t>(out)},
        stream);
    ASSERT_TRUE(runtime->Synchronize(stream).ok());
    ASSERT_TRUE(runtime->CopyNow(sums.data(), out->device(), sums.size() * 4).ok());
    uint32_t found = 0;
    for (const uint32_t sum : sums) found ^= sum;
    EXPECT_EQ(found, expected) << pieces;
  }
}

TEST_F(GpuBenchTest, ChecksOfTheDriver) {
  const auto runtime = NewTestRuntime();
  const absl::Status status = BenchDriver(*runtime, {.pinned_bytes = size_t{2} << 20}, report_);
  for (const auto& line : lines_) EXPECT_TRUE(line.at("ok").get<bool>()) << line;
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 13u);
  EXPECT_EQ(lines_.front()["what"], "pin shared memory");
  EXPECT_EQ(lines_.back()["what"], "release the waiting kernel");
}

TEST_F(GpuBenchTest, LimitsAreMeasured) {
  const BenchContext context = Context();
  const GpuLimits& limits = context.limits();
  for (const double limit : {limits.read_gb_per_s, limits.copy_gb_per_s, limits.to_device_gb_per_s,
                             limits.from_device_gb_per_s, limits.bf16_tflops})
    EXPECT_GT(limit, 0);
}

TEST_F(GpuBenchTest, SharesAreOfTheLimits) {
  const BenchContext context = Context();
  context.Report({{"op", "x"}, {"rows", 3}}, /*seconds=*/0.5, /*bytes=*/2e9, /*flops=*/1e12);
  const auto& line = lines_.at(0);
  EXPECT_EQ(line["op"], "x");
  EXPECT_EQ(line["rows"], 3);
  EXPECT_NEAR(line["us"].get<double>(), 5e5, 1e-3);
  EXPECT_NEAR(line["gb_per_s"].get<double>(), 4, 1e-9);
  EXPECT_NEAR(line["bandwidth_share"].get<double>() * context.limits().read_gb_per_s, 4, 1e-9);
  EXPECT_NEAR(line["peak_share"].get<double>() * context.limits().bf16_tflops, 2, 1e-9);
}

TEST_F(GpuBenchTest, LayersThatAreFetched) {
  BenchContext context = Context();
  const absl::Status status = BenchFetch(
      context,
      {.hidden = 64, .width = 64, .experts = 5, .experts_per_token = 2, .layers = 3, .tokens = {9, 33}});
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[1]["tokens"], 33);
  ExpectFigures({"us", "compute_us", "bus_us", "of_the_slower", "tflops"});
}

TEST_F(GpuBenchTest, AttentionOfBothKindsAndCaches) {
  BenchContext context = Context();
  const absl::Status status = BenchAttention(context, {.heads = 4,
                                                       .widths = {64, 16},
                                                       .nope = 32,
                                                       .value = 32,
                                                       .decode = {{3, 40}, {1, 100}},
                                                       .prefill_tokens = 160,
                                                       .expanded_rows = 64,
                                                       .layers = 2});
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 5u);
  EXPECT_EQ(lines_[0]["batch"], 3);
  EXPECT_EQ(lines_[0]["cache"], "bf16");
  EXPECT_EQ(lines_[3]["cache"], "fp8");
  EXPECT_EQ(lines_[4]["op"], "mla_prefill");
  ExpectFigures({"us", "tflops", "peak_share", "limit_read_gb_per_s", "limit_bf16_tflops"});
  // A row of the BF16 cache is 160 bytes.
  EXPECT_NEAR(lines_[0]["gb_per_s"].get<double>() * lines_[0]["us"].get<double>() * 1e3, 3 * 40 * 160, 1);
}

TEST_F(GpuBenchTest, ExpertsOfFewTokensAndManyRows) {
  BenchContext context = Context();
  const absl::Status status = BenchExperts(
      context,
      {.hidden = 64, .width = 64, .experts_per_token = 2, .slots = 5, .tokens = {1, 3}, .rows = {20}});
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 3u);
  EXPECT_EQ(lines_[1]["tokens"], 3);
  EXPECT_EQ(lines_[2]["op"], "experts_many_rows");
  EXPECT_EQ(lines_[2]["slots"], 2);
  ExpectFigures({"us", "gb_per_s", "bandwidth_share", "tflops", "peak_share", "with_sort_and_combine_us"});
}

TEST_F(GpuBenchTest, HandoverToAnotherProcess) {
  BenchContext context = Context();
  const absl::Status status =
      BenchHandover(context, *worker_, {.hidden = 64, .experts_per_token = 2, .layers = 4, .rows = {1, 3}});
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 2u);
  EXPECT_EQ(lines_[1]["rows"], 3);
  ExpectFigures({"us"});
  EXPECT_GT(worker_->TakeSecondsPerCall(), 0);
}

TEST_F(GpuBenchTest, PromptsWholeAndInHalves) {
  const absl::Status status = BenchOverlap(
      NewTestRuntime(), {.read_gb_per_s = 1}, *worker_,
      {.config = SmallConfig(), .context = 20, .prompt_tokens = execution::kMeasuredTokensMin}, report_);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0]["tokens"], execution::kMeasuredTokensMin);
  ExpectFigures({"whole_ms", "halves_ms", "gain", "call_ms"});
}

TEST_F(GpuBenchTest, StepOfAWholeModelAsAGraph) {
  const absl::Status status = BenchStep(NewTestRuntime(), {.read_gb_per_s = 1}, *worker_,
                                        {SmallConfig(), /*context=*/20, /*steps=*/2}, report_);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 1u);
  ExpectFigures({"graph_ms", "wall_ms", "weight_gb", "bound_ms", "times_bound"});
  // Computed by hand: attention of three layers, one dense layer, two shared experts and gates in fp32, the
  // head.
  const int attention = 64 * 32 + 32 * 2 * 48 + 64 * (64 + 16) + 2 * 64 * (32 + 32) + 2 * 32 * 64;
  const int values = 3 * attention + 3 * 64 * 96 + 2 * 3 * 64 * 64 + 64 * 96;
  EXPECT_NEAR(lines_[0]["weight_gb"].get<double>() * 1e9, values * 2 + 2 * 64 * 8 * 4, 1);
}

TEST_F(GpuBenchTest, HybridLayersWithAWorkerThatComputes) {
  const absl::Status status = BenchHybrid(NewTestRuntime(), {.read_gb_per_s = 1}, *worker_,
                                          {SmallConfig(), /*context=*/20, /*steps=*/2}, report_);
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(lines_.size(), 1u);
  EXPECT_EQ(lines_[0]["moe_layers"], 2);
  ExpectFigures({"us", "gpu_us", "cpu_us", "times_slower_side"});
}

}  // namespace
}  // namespace numoe::clients
