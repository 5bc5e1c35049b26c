// CudaGoldenTest: a golden checkpoint on the simulated GPU with a real worker, for tests of the whole model.
//
// The worker's service runs in this process and can be ended and started again. The model is loaded with the
// options that the test has set before LoadModel. The expected logits come from the reference implementation;
// cuda_golden_test.cc says how far they may be off.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/json/json_reader.h"
#include "common/weights/mapped_file.h"
#include "common/weights/safetensors.h"
#include "coordinator/execution/device/cuda/cuda_device.h"
#include "coordinator/execution/device/kv_block.h"
#include "coordinator/execution/model/hot_experts.h"
#include "coordinator/execution/model/model.h"
#include "coordinator/execution/transport/expert_fan_out.h"
#include "expert_worker/experts/expert_executor.h"
#include "expert_worker/experts/expert_slice.h"
#include "expert_worker/service/worker_service.h"
#include "gtest/gtest.h"
#include "tests/support/faulty_backend.h"
#include "tests/support/test_runtime.h"

namespace numoe::execution {

inline constexpr int kBlocks = 24;
inline constexpr int kSlots = 3;          // for hot experts in each layer; empty unless a test fills them
inline constexpr int kFetchedTokens = 9;  // the least length of prompts that fetch experts, in tests of that
inline constexpr int kPatienceMs = 120'000;

struct Golden {
  std::string name;
  DataPath path = DataPath::kSharedMemory;
  CacheType cache = CacheType::kBf16;
};

inline std::string Name(const Golden& golden) {
  std::string name = golden.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name + (golden.path == DataPath::kGrpc ? "_grpc" : "_shm");
}

class CudaGoldenTest : public ::testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    const std::filesystem::path data = "tests/golden/data";
    LoadExpected(data / GetParam().name / "expected");
    const std::filesystem::path dir =
        GetParam().name == "nano" ? "deploy/models/nano" : data / GetParam().name;
    checkpoint_ = *Checkpoint::Open(dir);
    config_ = *ReadModelConfig(dir);
    executor_ = *worker::ExpertExecutor::Load(
        *checkpoint_, config_, {.precision = Precision::kFloat, .threads = 2, .memory = {.shared = true}});
    Serve();
    auto workers = ExpertFanOut::Connect({.addresses = {address_},
                                          .link = {.data_path = GetParam().path,
                                                   .hidden_size = config_.hidden_size,
                                                   .num_experts = config_.num_experts,
                                                   .call_deadline_ms = kPatienceMs,
                                                   .map_experts = true},
                                          .start_deadline_ms = kPatienceMs},
                                         metrics_);
    ASSERT_TRUE(workers.ok()) << workers.status();
    workers_ = *std::move(workers);
    LoadModel();
  }

  void LoadModel() {
    model_.reset();
    device_.reset();  // one simulated GPU at a time
    auto device =
        cuda::CudaDevice::Create({.rows = 64, .sequences = 4, .blocks_per_sequence = 8}, NewTestRuntime());
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    const auto spec = SlotSpecOf(*checkpoint_, config_, kSlots, /*window=*/(config_.num_experts + 2) / 3);
    ASSERT_TRUE(spec.ok()) << spec.status();
    const auto slots = device_->ReserveExperts(*spec);
    ASSERT_TRUE(slots.ok()) << slots.status();
    slots_ = *slots;
    auto model = Model::Load(*checkpoint_, config_, ModelOptionsFor(deferred_), *device_,
                             faulty_ != nullptr ? static_cast<ExpertBackend&>(*faulty_) : *workers_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }

  ModelOptions ModelOptionsFor(int deferred) {
    return {
        .kv_block_tokens = kKvBlockTokens,
        .kv_blocks = kBlocks,
        .kv_cache_type = GetParam().cache,
        .deferred_experts = deferred,
        .defer_always = deferred > 0,
        .overlap_tokens = overlap_tokens_,
        .observe_expert_execution = [this](ExpertExecution execution) { executions_.push_back(execution); }};
  }
  void Serve() {
    auto service =
        worker::WorkerService::Start(*executor_, {.listen = address_,
                                                  .hidden_size = config_.hidden_size,
                                                  .num_experts = config_.num_experts,
                                                  .experts_per_token = config_.experts_per_token,
                                                  .mapped_weights = executor_->Weights().Directory(),
                                                  .experts_fd = executor_->Weights().memory.fd()});
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }

  void LoadExpected(const std::filesystem::path& dir) {
    absl::StatusOr<MappedFile> file = MappedFile::Open(dir / "expected.safetensors");
    ASSERT_TRUE(file.ok()) << file.status();
    auto header = ParseSafetensorsHeader(file->bytes(), "expected.safetensors");
    ASSERT_TRUE(header.ok()) << header.status();
    const TensorView& ids = header->tensors.at("input_ids");
    tokens_.resize(ids.ElementCount());
    std::memcpy(tokens_.data(), ids.data.data(), ids.data.size());
    const TensorView& logits = header->tensors.at("logits");
    expected_.resize(logits.ElementCount());
    std::memcpy(expected_.data(), logits.data.data(), logits.data.size());
    const auto meta = ReadTextFile(dir / "meta.json", 1 << 20);
    tolerance_ = nlohmann::json::parse(*meta)["bf16_rounding_max"].get<double>() * 4;
  }

  StepSequence Sequence(int begin, int end) const {
    return {.tokens = absl::MakeConstSpan(tokens_).subspan(begin, end - begin),
            .position = begin,
            .blocks = blocks_,
            .logits_last = end - begin};
  }
  absl::StatusOr<std::vector<float>> Step(int begin, int end) {
    const auto logits = model_->Forward({.sequences = {Sequence(begin, end)}});
    if (!logits.ok()) return logits.status();
    return std::vector<float>(logits->values.begin(), logits->values.end());
  }

  // Twice the measured error. With random weights, rounding also changes which of a token's experts are
  // deferred: 4 %, while deferral itself changes the logits by 40 %.
  double MeanError() const {
    if (GetParam().name == "nano") return 0.003;
    return deferred_ > 0 ? 0.08 : 0.028;
  }
  int OffTokensMax() const {
    if (GetParam().name == "nano") return 0;
    return deferred_ > 0 ? 6 : 1;
  }
  void ExpectGolden(const std::vector<float>& logits) {
    const size_t vocab = expected_.size() / tokens_.size();
    double error = 0, size = 0;
    int off_tokens = 0;
    for (size_t t = 0; t < tokens_.size(); ++t) {
      double worst = 0;
      for (size_t i = t * vocab; i < (t + 1) * vocab; ++i) {
        const double off = std::fabs(static_cast<double>(logits[i]) - expected_[i]);
        worst = std::max(worst, off);
        error += off;
        size += std::fabs(expected_[i]);
      }
      off_tokens += worst > tolerance_ ? 1 : 0;
    }
    RecordProperty("mean", std::to_string(error / size));
    EXPECT_LE(off_tokens, OffTokensMax());
    EXPECT_LE(error, MeanError() * size);
  }

  void LoseAWorker() {
    ASSERT_TRUE(Step(0, 8).ok());
    const auto first = Step(8, 9);  // this step is captured
    ASSERT_TRUE(first.ok()) << first.status();
    service_.reset();
    EXPECT_TRUE(absl::IsUnavailable(Step(8, 9).status()));
    EXPECT_TRUE(absl::IsUnavailable(Step(8, 9).status()));
    Serve();
    ASSERT_TRUE(workers_->AwaitReady(kPatienceMs).ok());
    for (int i = 0; i < 3; ++i) {
      const auto again = Step(8, 9);  // another segment, but the same graph
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(*again, *first);
    }
  }

  int deferred_ = 0;  // deferred experts of a token, in all steps
  int overlap_tokens_ = kNoOverlap;
  std::vector<ExpertExecution> executions_;
  const std::string address_ = "unix:" + ::testing::TempDir() + "/cuda-golden-" + std::to_string(getpid());
  std::vector<TokenId> tokens_;
  std::vector<float> expected_;
  double tolerance_ = 0;
  const std::vector<KvBlockId> blocks_ = {21, 2, 17, 5, 9, 0, 8};
  Metrics metrics_{MetricOwner::kCoordinator};
  std::unique_ptr<Checkpoint> checkpoint_;
  ModelConfig config_;
  std::unique_ptr<worker::ExpertExecutor> executor_;
  std::unique_ptr<worker::WorkerService> service_;
  std::unique_ptr<ExpertFanOut> workers_;
  std::unique_ptr<FaultyBackend>
      faulty_;  // wraps the workers if a test loses calls; the host then makes all calls
  std::unique_ptr<cuda::CudaDevice> device_;
  ExpertSlots* slots_ = nullptr;
  std::unique_ptr<Model> model_;
};

}  // namespace numoe::execution
