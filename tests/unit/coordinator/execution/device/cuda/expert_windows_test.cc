// Experts that are fetched from workers' memory give the same results as experts in slots that were filled
// from the checkpoint: in every format that is repacked, for every division among the workers, together with
// hot experts, with windows smaller than a layer, and in every order of the streams.
//
// Tolerance. In both cases the same kernels multiply the same bits; windows divide a token's sum over its
// experts into several sums, so the fp32 sums may differ by some roundings of their largest term.
#include "coordinator/execution/device/cuda/expert_windows.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <random>

#include "common/formats/bf16.h"
#include "coordinator/execution/device/cuda/cuda_experts.h"
#include "coordinator/execution/model/hot_experts.h"
#include "coordinator/execution/transport/direct_experts.h"
#include "expert_worker/experts/expert_slice.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kHidden = 160;
constexpr int kWidth = 384;
constexpr int kExperts = 6;
constexpr int kLayers = 4;
constexpr int kExpertWindowsRows = 21;
constexpr int kPerToken = 3;

ModelConfig Config() {
  ModelConfig config;
  config.hidden_size = kHidden;
  config.num_layers = kLayers;
  config.moe_intermediate_size = kWidth;
  config.num_experts = kExperts;
  config.experts_per_token = kPerToken;
  config.layer_is_moe = {false, true, true, true};
  return config;
}

std::unique_ptr<Checkpoint> Write(const TemporaryFolder& folder, MatrixFormat format) {
  SafetensorsWriter writer;
  for (LayerId layer = 1; layer < kLayers; ++layer) {
    for (ExpertId e = 0; e < kExperts; ++e) {
      const auto add = [&](const char* part, int rows, int cols) {
        writer.AddLinear(fmt::format("model.layers.{}.mlp.experts.{}.{}_proj", layer, e, part), format, rows,
                         cols, 0.1f);
      };
      add("gate", kWidth, kHidden);
      add("up", kWidth, kHidden);
      add("down", kHidden, kWidth);
    }
  }
  writer.Write(folder.path());
  return *Checkpoint::Open(folder.path());
}

// The workers' slices in separate memory, and the coordinator's mappings of it.
class SharedSlices final : public DirectExperts {
 public:
  SharedSlices(const Checkpoint& checkpoint, worker::SliceMode mode, int workers, const std::string& format) {
    ThreadPool pool({.cpus = {0}});
    for (int worker = 0; worker < workers; ++worker) {
      auto slice = worker::LoadSlice(
          checkpoint, Config(), {.mode = mode, .worker_index = worker, .worker_count = workers},
          *ParseWeightFormatOrAuto(format), pool, {.memory = {.shared = true}, .nodes = {0}});
      EXPECT_TRUE(slice.ok()) << slice.status();
      slices_.push_back(*std::move(slice));
    }
    Map();
  }
  // Maps the memory again, as after a restart of the workers.
  void Map() {
    mapped_.clear();
    for (const worker::ExpertSlice& slice : slices_) {
      auto memory = ExpertMemory::Map(FileDescriptor(dup(slice.memory.fd())), slice.Directory(),
                                      {.by_expert = slice.spec.mode == worker::SliceMode::kExpert,
                                       .worker_index = slice.spec.worker_index,
                                       .worker_count = slice.spec.worker_count,
                                       .num_experts = kExperts});
      EXPECT_TRUE(memory.ok()) << memory.status();
      mapped_.push_back(*std::move(memory));
    }
  }
  void Unmap() { mapped_.clear(); }
  std::vector<std::shared_ptr<ExpertMemory>> MappedExperts() override { return mapped_; }
  absl::StatusOr<DirectStep> BeginDirect(std::atomic<uint32_t>*) override {
    return absl::UnimplementedError("these workers compute nothing");
  }
  absl::Status EndDirect(int, int, const absl::Status& result) override { return result; }

 private:
  std::vector<worker::ExpertSlice> slices_;
  std::vector<std::shared_ptr<ExpertMemory>> mapped_;
};

ExpertMatrices FindMatrices(const Checkpoint& checkpoint, LayerId layer, ExpertId expert) {
  const auto find = [&](const char* part, int rows, int cols) {
    return *checkpoint.FindMatrix(fmt::format("model.layers.{}.mlp.experts.{}.{}_proj", layer, expert, part),
                                  rows, cols, Config());
  };
  return {find("gate", kWidth, kHidden), find("up", kWidth, kHidden), find("down", kHidden, kWidth)};
}

// A device with hot experts and windows, and steps of random tokens through all its layers.
class Machine {
 public:
  Machine(const Checkpoint& checkpoint, int window, bool others_first, const std::vector<ExpertId>& hot)
      : runtime_(NewSimulatedRuntime({.others_first = others_first})), stream_(*runtime_->NewStream()) {
    const ExpertSlotSpec spec =
        *SlotSpecOf(checkpoint, Config(), std::max<int>(1, static_cast<int>(hot.size())), window);
    products_ = *ExpertProducts::Create(spec, kExpertWindowsRows, *runtime_, stream_);
    hot_ = *CudaExperts::Create(spec, *runtime_, stream_);
    if (window > 0) windows_ = *ExpertWindows::Create(spec, *runtime_, stream_);
    for (LayerId layer = 1; layer < kLayers; ++layer) {
      for (size_t slot = 0; slot < hot.size(); ++slot) {
        EXPECT_TRUE(
            hot_->Fill(layer, static_cast<int>(slot), FindMatrices(checkpoint, layer, hot[slot])).ok());
        hot_->Assign(layer, static_cast<int>(slot), hot[slot]);
      }
    }
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(-1, 1);
    hidden_ = *runtime_->Allocate(kExpertWindowsRows * kHidden * sizeof(Bf16));
    for (int i = 0; i < kExpertWindowsRows * kHidden; ++i)
      reinterpret_cast<uint16_t*>(hidden_->device())[i] = EncodeBf16(uniform(random));
    const size_t pairs = size_t{kExpertWindowsRows} * kPerToken;
    experts_ = *runtime_->Allocate(pairs * sizeof(int32_t));
    weights_ = *runtime_->Allocate(pairs * sizeof(float));
    for (int t = 0; t < kExpertWindowsRows; ++t) {
      std::vector<int32_t> chosen = {0, 1, 2, 3, 4, 5};
      std::shuffle(chosen.begin(), chosen.end(), random);
      for (int k = 0; k < kPerToken; ++k) {
        reinterpret_cast<int32_t*>(experts_->device())[t * kPerToken + k] =
            t == 7 ? -1 : chosen[k];  // 7: padding
        reinterpret_cast<float*>(weights_->device())[t * kPerToken + k] = uniform(random);
      }
    }
    sums_ = *runtime_->Allocate(size_t{kLayers} * kExpertWindowsRows * kHidden * sizeof(float));
  }

  ExpertWindows& windows() { return *windows_; }
  CudaExperts& hot() { return *hot_; }
  bool Begin(DirectExperts& backend) {
    return windows_->BeginStep(backend, [&](LayerId layer, ExpertId e) { return hot_->Holds(layer, e); });
  }
  void Enqueue() {
    hot_->BeginStep();
    runtime_->Clear(sums_->device(), sums_->bytes(), stream_);
    for (LayerId layer = 1; layer < kLayers; ++layer) {
      ExpertsCall call{.layer = layer,
                       .rows = kExpertWindowsRows,
                       .hidden = reinterpret_cast<const Bf16*>(hidden_->device()),
                       .experts = reinterpret_cast<const int32_t*>(experts_->device()),
                       .weights = reinterpret_cast<const float*>(weights_->device())};
      float* const sums =
          reinterpret_cast<float*>(sums_->device()) + int64_t{layer} * kExpertWindowsRows * kHidden;
      const SlotSet slots = hot_->Slots(layer);
      const int32_t* const left = products_->EnqueueSort(call, slots);
      products_->EnqueueProducts(call, slots);
      products_->EnqueueCombine(call, slots, sums);
      call.experts = left;
      if (windows_ != nullptr) windows_->EnqueueLayer(call, *products_, sums);
    }
  }
  std::vector<float> Finish() {
    EXPECT_TRUE(runtime_->Synchronize(stream_).ok());
    if (windows_ != nullptr) windows_->EndStep();
    const auto* sums = reinterpret_cast<const float*>(sums_->device());
    return {sums, sums + kLayers * kExpertWindowsRows * kHidden};
  }

 private:
  std::unique_ptr<Runtime> runtime_;
  const Stream stream_;
  std::unique_ptr<ExpertProducts> products_;
  std::unique_ptr<CudaExperts> hot_;
  std::unique_ptr<ExpertWindows> windows_;
  std::unique_ptr<Memory> hidden_, experts_, weights_, sums_;
};

// Returns the results with all experts in slots, filled from the checkpoint's matrices.
std::vector<float> ExpectedWindow(const Checkpoint& checkpoint) {
  Machine machine(checkpoint, /*window=*/0, /*others_first=*/false, {0, 1, 2, 3, 4, 5});
  machine.Enqueue();
  return machine.Finish();
}

void ExpectEqualSums(const std::vector<float>& found, const std::vector<float>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  float largest = 0;
  for (const float value : expected) largest = std::max(largest, std::fabs(value));
  ASSERT_GT(largest, 0.01f);
  for (size_t i = 0; i < found.size(); ++i)
    ASSERT_NEAR(found[i], expected[i], 8 * 0x1p-24f * largest) << "value " << i;
}

struct Sharing {
  worker::SliceMode mode;
  int workers;
};

TEST(ExpertWindowsTest, FetchedExpertsEqualThoseOfTheCheckpoint) {
  for (const MatrixFormat format : {MatrixFormat::kBF16, MatrixFormat::kFp8Block, MatrixFormat::kInt4Group}) {
    const TemporaryFolder folder;
    const auto checkpoint = Write(folder, format);
    const std::vector<float> expected = ExpectedWindow(*checkpoint);
    for (const Sharing& sharing : {Sharing{worker::SliceMode::kIntermediate, 1},
                                   {worker::SliceMode::kIntermediate, 3},
                                   {worker::SliceMode::kExpert, 2}}) {
      SharedSlices workers(*checkpoint, sharing.mode, sharing.workers, "auto");
      for (const bool others_first : {false, true}) {
        SCOPED_TRACE(fmt::format("format {}, {} workers by {}, {}", static_cast<int>(format), sharing.workers,
                                 worker::SliceModeName(sharing.mode), others_first));
        Machine machine(*checkpoint, /*window=*/kExperts, others_first, {});
        ASSERT_TRUE(machine.Begin(workers));
        machine.Enqueue();
        ExpectEqualSums(machine.Finish(), expected);
      }
    }
  }
}

TEST(ExpertWindowsTest, WindowsSmallerThanALayerTogetherWithHotExperts) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kInt4Group);
  const std::vector<float> expected = ExpectedWindow(*checkpoint);
  for (const Sharing& sharing :
       {Sharing{worker::SliceMode::kIntermediate, 2}, {worker::SliceMode::kExpert, 2}}) {
    SharedSlices workers(*checkpoint, sharing.mode, sharing.workers, "auto");
    for (const std::vector<ExpertId>& hot : {std::vector<ExpertId>{}, {4, 1}, {0, 1, 2, 3, 4, 5}}) {
      for (const int window : {1, 4}) {
        for (const bool others_first : {false, true}) {
          SCOPED_TRACE(fmt::format("{} workers by {}, {} hot, windows of {}, {}", sharing.workers,
                                   worker::SliceModeName(sharing.mode), hot.size(), window, others_first));
          Machine machine(*checkpoint, window, others_first, hot);
          for (int step = 0; step < 2; ++step) {
            ASSERT_TRUE(machine.Begin(workers));
            machine.Enqueue();
            ExpectEqualSums(machine.Finish(), expected);
          }
        }
      }
    }
  }
}

// Experts that the workers converted from BF16 to INT4 fit the windows that were planned for BF16.
TEST(ExpertWindowsTest, WorkersMayHoldLessThanTheCheckpoint) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kBF16);
  SharedSlices whole(*checkpoint, worker::SliceMode::kIntermediate, 1, "int4");
  SharedSlices parts(*checkpoint, worker::SliceMode::kIntermediate, 3, "int4");
  Machine one(*checkpoint, kExperts, false, {}), three(*checkpoint, 4, true, {});
  ASSERT_TRUE(one.Begin(whole) && three.Begin(parts));
  one.Enqueue();
  three.Enqueue();
  ExpectEqualSums(three.Finish(), one.Finish());
}

// Formats that the product kernels do not decode become BF16 on arrival: INT8 of a BF16 checkpoint, as a
// desktop with little memory holds it. A weight is off by at most half of 1/127 of its group's largest, and
// sums have many terms.
TEST(ExpertWindowsTest, Int8OfTheWorkersBecomesBf16) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kBF16);
  const std::vector<float> expected = ExpectedWindow(*checkpoint);
  for (const int count : {1, 3}) {
    SharedSlices int8(*checkpoint, worker::SliceMode::kIntermediate, count, "int8");
    Machine machine(*checkpoint, kExperts, count > 1, {});
    ASSERT_TRUE(machine.Begin(int8));
    machine.Enqueue();
    const std::vector<float> found = machine.Finish();
    double error = 0, size = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      error += std::pow(found[i] - expected[i], 2);
      size += std::pow(expected[i], 2);
    }
    EXPECT_GT(error, 0) << "INT8 is not the checkpoint's BF16";
    EXPECT_LT(std::sqrt(error / size), 0.02) << count << " workers";
  }
}

// INT8 as BF16 is four times what was planned for a checkpoint of INT4.
TEST(ExpertWindowsTest, TheWorkersComputeExpertsForWhichWindowsHaveNoRoom) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kInt4Group);
  SharedSlices int8(*checkpoint, worker::SliceMode::kIntermediate, 1, "int8");
  Machine machine(*checkpoint, kExperts, false, {});
  const absl::Status adopted = machine.windows().Adopt(int8);
  EXPECT_TRUE(absl::IsUnimplemented(adopted)) << adopted;
  EXPECT_THAT(adopted.ToString(), ::testing::HasSubstr("--format=auto"));
  EXPECT_FALSE(machine.Begin(int8));
}

TEST(ExpertWindowsTest, WorkersThatComeBackAreMappedAgain) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kFp8Block);
  const std::vector<float> expected = ExpectedWindow(*checkpoint);
  SharedSlices workers(*checkpoint, worker::SliceMode::kExpert, 2, "auto");
  Machine machine(*checkpoint, 2, true, {3});
  ASSERT_TRUE(machine.Begin(workers));
  const auto old = workers.MappedExperts();
  EXPECT_FALSE(old[0]->Unmap()) << "a step uses it";
  machine.Enqueue();
  workers.Unmap();  // a worker dies while the step runs
  ExpectEqualSums(machine.Finish(), expected);
  EXPECT_FALSE(machine.Begin(workers));
  EXPECT_TRUE(old[0]->pinned());
  EXPECT_TRUE(old[0]->Unmap() && old[1]->Unmap());
  workers.Map();
  ASSERT_TRUE(machine.Begin(workers));
  machine.Enqueue();
  ExpectEqualSums(machine.Finish(), expected);
  EXPECT_TRUE(workers.MappedExperts()[0]->pinned());
  EXPECT_FALSE(old[0]->pinned());
}

// A step that ends before its last layer does not affect later steps.
TEST(ExpertWindowsTest, AStepThatEndsEarlyDoesNotDisturbTheNext) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kInt4Group);
  const std::vector<float> expected = ExpectedWindow(*checkpoint);
  SharedSlices workers(*checkpoint, worker::SliceMode::kIntermediate, 2, "auto");
  for (const bool others_first : {false, true}) {
    Machine machine(*checkpoint, 2, others_first, {});
    ASSERT_TRUE(machine.Begin(workers));
    machine.windows().EndStep();
    ASSERT_TRUE(machine.Begin(workers));
    machine.Enqueue();
    ExpectEqualSums(machine.Finish(), expected);
  }
}

// A fetched step without logits is not waited for before the next exchange, so the experts that it does not
// fetch must stay in their slots until it ends.
TEST(ExpertWindowsTest, AnExchangeWhileAStepRunsAppliesToTheNextStep) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kInt4Group);
  const std::vector<float> expected = ExpectedWindow(*checkpoint);
  SharedSlices workers(*checkpoint, worker::SliceMode::kIntermediate, 2, "auto");
  for (const bool others_first : {false, true}) {
    Machine machine(*checkpoint, 4, others_first, {4, 1});
    ASSERT_TRUE(machine.Begin(workers));
    machine.Enqueue();
    for (LayerId layer = 1; layer < kLayers; ++layer) machine.hot().Assign(layer, 0, kNoExpert);
    ExpectEqualSums(machine.Finish(), expected);
    EXPECT_FALSE(machine.hot().Holds(1, 4));
    ASSERT_TRUE(machine.Begin(workers));
    machine.Enqueue();
    ExpectEqualSums(machine.Finish(), expected);
  }
}

TEST(ExpertWindowsTest, MeasuringDoesNotDisturbTheStepsAroundIt) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kInt4Group);
  const std::vector<float> expected = ExpectedWindow(*checkpoint);
  SharedSlices workers(*checkpoint, worker::SliceMode::kIntermediate, 2, "auto");
  for (const bool others_first : {false, true}) {
    Machine machine(*checkpoint, 2, others_first, {1});
    EXPECT_FALSE(machine.windows().MeasureLayer().ok()) << "nothing is mapped yet";
    ASSERT_TRUE(machine.windows().Adopt(workers).ok());
    for (int step = 0; step < 2; ++step) {
      const absl::StatusOr<double> seconds = machine.windows().MeasureLayer();
      ASSERT_TRUE(seconds.ok()) << seconds.status();
      EXPECT_GT(*seconds, 0);
      ASSERT_TRUE(machine.Begin(workers));
      machine.Enqueue();
      ExpectEqualSums(machine.Finish(), expected);
    }
  }
  workers.Unmap();
}

TEST(ExpertWindowsTest, PinsEndWithTheDevice) {
  const TemporaryFolder folder;
  const auto checkpoint = Write(folder, MatrixFormat::kInt4Group);
  SharedSlices workers(*checkpoint, worker::SliceMode::kIntermediate, 1, "auto");
  {
    Machine machine(*checkpoint, 2, false, {});
    ASSERT_TRUE(machine.windows().Adopt(workers).ok());
    EXPECT_TRUE(workers.MappedExperts()[0]->pinned());
  }
  EXPECT_FALSE(workers.MappedExperts()[0]->pinned());
}

}  // namespace
}  // namespace numoe::execution::cuda
