// What a slice refuses to load, each with an error that says what to do, and what it contains when it is
// loaded.
#include "expert_worker/experts/expert_slice.h"

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/expert_worker/experts/tiny_experts.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<ExpertSlice> Load(const SafetensorsWriter& writer, const SliceSpec& spec,
                                 std::optional<WeightFormat> format = std::nullopt,
                                 const ModelConfig& config = TinyConfig()) {
  const TemporaryFolder folder;
  const std::unique_ptr<Checkpoint> checkpoint = OpenCheckpoint(writer, folder);
  ThreadPool pool({.cpus = {0, 0, 0}});
  return LoadSlice(*checkpoint, config, spec, format, pool);
}

std::string LoadError(const SafetensorsWriter& writer, const SliceSpec& spec,
                      std::optional<WeightFormat> format = std::nullopt) {
  return Load(writer, spec, format).status().ToString();
}

TEST(ExpertSliceTest, AnIntermediateSliceHoldsItsPartOfEveryExpert) {
  const TemporaryFolder folder;
  const auto checkpoint = OpenCheckpoint(TinyTensors(MatrixFormat::kBF16), folder);
  ThreadPool pool({.cpus = {0, 0, 0}});
  const auto slice =
      LoadSlice(*checkpoint, TinyConfig(), {.worker_index = 1, .worker_count = 2}, std::nullopt, pool);
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->formats[kMoeLayer].up, WeightFormat::kBf16);
  EXPECT_EQ(slice->width, kIntermediate / 2);
  EXPECT_TRUE(slice->layers[kDenseLayer].empty());
  ASSERT_EQ(slice->layers[kMoeLayer].size(), static_cast<size_t>(kExperts));
  for (ExpertId e = 0; e < kExperts; ++e) {
    const auto up = checkpoint->FindMatrix(ExpertModule(e, "up"), kIntermediate, kHidden, TinyConfig());
    const auto down = checkpoint->FindMatrix(ExpertModule(e, "down"), kHidden, kIntermediate, TinyConfig());
    ASSERT_TRUE(up.ok() && down.ok());
    const ExpertWeights& w = slice->layers[kMoeLayer][static_cast<size_t>(e)];
    for (const int i : {0, 31, 100, kIntermediate / 2 - 1}) {
      for (const int h : {0, 63, kHidden - 1}) {
        const int stored = kIntermediate / 2 + i;  // worker 1 begins in the middle
        float expected = 0;
        DecodeMatrix(*up, stored, stored + 1, h, h + 1, absl::MakeSpan(&expected, 1));
        EXPECT_EQ(UnpackWeight(w.up, i, h), expected);
        DecodeMatrix(*down, h, h + 1, stored, stored + 1, absl::MakeSpan(&expected, 1));
        EXPECT_EQ(UnpackWeight(w.down, h, i), expected);
      }
    }
  }
}

TEST(ExpertSliceTest, SharedWeightsAreTheSameInOneBlockOfAlignedLayers) {
  const TemporaryFolder folder;
  const auto checkpoint = OpenCheckpoint(TinyTensors(MatrixFormat::kBF16), folder);
  ThreadPool pool({.cpus = {0, 0, 0}});
  const auto own = LoadSlice(*checkpoint, TinyConfig(), {}, std::nullopt, pool);
  const auto shared = LoadSlice(*checkpoint, TinyConfig(), {}, std::nullopt, pool,
                                {.memory = {.shared = true}, .nodes = {0}});
  ASSERT_TRUE(own.ok() && shared.ok()) << shared.status();
  EXPECT_EQ(own->memory.fd(), -1);
  ASSERT_GE(shared->memory.fd(), 0);
  EXPECT_EQ(mmap(nullptr, 1, PROT_READ | PROT_WRITE, MAP_SHARED, shared->memory.fd(), 0), MAP_FAILED)
      << "a process that has the descriptor must not be able to write to the weights";
  EXPECT_EQ(shared->memory.offset(kMoeLayer), 0u);
  EXPECT_EQ(shared->memory.bytes() % (2 << 20), 0u);
  EXPECT_GE(shared->memory.bytes(), shared->bytes);
  EXPECT_EQ(shared->memory.layer(kDenseLayer), nullptr);
  EXPECT_EQ(std::memcmp(own->memory.layer(kMoeLayer), shared->memory.layer(kMoeLayer), own->bytes), 0);
}

TEST(ExpertSliceTest, MemoryIsRequestedBeforeItIsTakenAndNotTakenIfRefused) {
  const TemporaryFolder folder;
  const auto checkpoint = OpenCheckpoint(TinyTensors(MatrixFormat::kBF16), folder);
  ThreadPool pool({.cpus = {0}});
  std::vector<uint64_t> asked;
  absl::Status answer = absl::OkStatus();
  LoadOptions options;
  options.ask_for_memory = [&](uint64_t weight_bytes) {
    asked.push_back(weight_bytes);
    return answer;
  };
  const auto load = [&] { return LoadSlice(*checkpoint, TinyConfig(), {}, std::nullopt, pool, options); };
  const auto slice = load();
  ASSERT_TRUE(slice.ok()) << slice.status();
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_GE(asked[0], slice->bytes);
  EXPECT_LT(asked[0], slice->bytes + (uint64_t{4} << 20)) << "huge pages may be filled in part";
  answer = absl::ResourceExhaustedError("the host is full");
  EXPECT_EQ(load().status(), answer);
  options.memory = {.pages = HugePages::k2M};
  EXPECT_EQ(load().status(), answer) << "before reserved pages are looked for";
  EXPECT_EQ(asked.back(), 0u) << "which are not what is free";
}

TEST(ExpertSliceTest, ReservedPagesThatAreNotThereAreRefusedWithWhatToSet) {
  const TemporaryFolder folder;
  const auto checkpoint = OpenCheckpoint(TinyTensors(MatrixFormat::kBF16), folder);
  ThreadPool pool({.cpus = {0}});
  const auto slice = LoadSlice(*checkpoint, TinyConfig(), {}, std::nullopt, pool,
                               {.memory = {.pages = HugePages::k2M}, .nodes = {777}});
  EXPECT_EQ(slice.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(slice.status().ToString(), ::testing::AllOf(HasSubstr("--hugepages=2M"), HasSubstr("777")));
}

TEST(ExpertSliceTest, AnExpertSliceHoldsWholeExperts) {
  const auto slice = Load(TinyTensors(MatrixFormat::kBF16),
                          {.mode = SliceMode::kExpert, .worker_index = 1, .worker_count = 4});
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->width, kIntermediate);
  EXPECT_EQ(slice->owned, (std::vector<bool>{false, true, false, false, false, true}));
  const size_t expert_bytes = 2 * PackedBytes(WeightFormat::kBf16, kIntermediate, kHidden) +
                              PackedBytes(WeightFormat::kBf16, kHidden, kIntermediate);
  EXPECT_EQ(slice->bytes, 2 * expert_bytes);
  EXPECT_EQ(slice->layers[kMoeLayer][0].up.data, nullptr);
}

TEST(ExpertSliceTest, AutomaticFormatIsThePublishedOne) {
  EXPECT_EQ(Load(TinyTensors(MatrixFormat::kInt4Group), {})->formats[kMoeLayer].up, WeightFormat::kRawInt4);
  EXPECT_EQ(Load(TinyTensors(MatrixFormat::kFp8Block), {})->formats[kMoeLayer].up, WeightFormat::kFp8);
  EXPECT_EQ(Load(TinyTensors(MatrixFormat::kFp8Block), {}, WeightFormat::kInt8)->formats[kMoeLayer].down,
            WeightFormat::kInt8);
}

TEST(ExpertSliceTest, EveryWorkerNamesACutBlockAndWhatToDo) {
  for (int worker = 0; worker < 4; ++worker) {
    const std::string error =
        LoadError(TinyTensors(MatrixFormat::kFp8Block), {.worker_index = worker, .worker_count = 4});
    EXPECT_THAT(error,
                HasSubstr("intermediate size 384 over 4 workers would cut half a block of 128 weights"));
    EXPECT_THAT(error, HasSubstr("expected a multiple of 64 for each worker: use --slice=expert"));
  }
  EXPECT_THAT(LoadError(TinyTensors(MatrixFormat::kInt4Group), {.worker_count = 5}),
              HasSubstr("would cut a group of 32 weights that share a scale (format raw_int4)"));
  EXPECT_THAT(LoadError(TinyTensors(MatrixFormat::kBF16), {.worker_count = 7}),
              HasSubstr("use --slice=expert"));
  EXPECT_TRUE(
      Load(TinyTensors(MatrixFormat::kFp8Block), {.mode = SliceMode::kExpert, .worker_count = 4}).ok());
}

TEST(ExpertSliceTest, OneWorkerMayHoldAnyWidth) {
  ModelConfig config = TinyConfig();
  config.moe_intermediate_size = 72;
  SafetensorsWriter writer;
  for (ExpertId e = 0; e < kExperts; ++e) {
    writer.AddLinear(ExpertModule(e, "gate"), MatrixFormat::kBF16, 72, kHidden, 0.1f);
    writer.AddLinear(ExpertModule(e, "up"), MatrixFormat::kBF16, 72, kHidden, 0.1f);
    writer.AddLinear(ExpertModule(e, "down"), MatrixFormat::kBF16, kHidden, 72, 0.1f);
  }
  const auto slice = Load(writer, {}, std::nullopt, config);
  ASSERT_TRUE(slice.ok()) << slice.status();
  EXPECT_EQ(slice->width, 72);
}

TEST(ExpertSliceTest, BadSpecsAreNamed) {
  const SafetensorsWriter tensors = TinyTensors(MatrixFormat::kBF16);
  EXPECT_THAT(LoadError(tensors, {.worker_index = 2, .worker_count = 2}),
              HasSubstr("--worker-index=2: expected 0 to 1"));
  EXPECT_THAT(LoadError(tensors, {.worker_count = 0}), HasSubstr("--worker-count=0: expected 1 to 64"));
  EXPECT_THAT(LoadError(tensors, {.mode = SliceMode::kExpert, .worker_count = 7}),
              HasSubstr("has only 6 experts"));
}

TEST(ExpertSliceTest, AFormatThatCannotHoldTheWeightsIsRefused) {
  EXPECT_THAT(LoadError(TinyTensors(MatrixFormat::kBF16), {}, WeightFormat::kRawInt4),
              HasSubstr("raw_int4 needs pack-quantized INT4"));
  EXPECT_THAT(LoadError(TinyTensors(MatrixFormat::kInt4Group), {}, WeightFormat::kFp8),
              HasSubstr("fp8 needs block-FP8"));
}

TEST(ExpertSliceTest, AMissingExpertIsNamed) {
  SafetensorsWriter tensors = TinyTensors(MatrixFormat::kBF16);
  tensors.Remove(ExpertModule(4, "down") + ".weight");
  EXPECT_THAT(LoadError(tensors, {}), HasSubstr("layers.1.mlp.experts.4.down_proj.weight"));
}

TEST(ExpertSliceTest, NanScalesAreRefused) {
  SafetensorsWriter tensors = TinyTensors(MatrixFormat::kFp8Block);
  const std::string name = ExpertModule(3, "gate") + ".weight_scale_inv";
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(tensors.Bytes(name).data() + sizeof nan, &nan, sizeof nan);
  EXPECT_THAT(LoadError(tensors, {}), HasSubstr(name));
}

}  // namespace
}  // namespace numoe::worker
