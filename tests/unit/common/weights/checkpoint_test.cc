// Correct checkpoint folders, and each way in which one can be wrong: messages name the file, the tensor,
// what was found and what was expected.
#include "common/weights/checkpoint.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "common/formats/bf16.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  const auto* begin = reinterpret_cast<const std::byte*>(values.data());
  return {begin, begin + values.size() * sizeof(T)};
}

class CheckpointTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& file) const { return (folder_.path() / file).string(); }

  // Writes the content of `writer` as `file` and clears it.
  void WriteShard(const std::string& file) {
    writer_.Write(folder_.path());
    if (file != "model.safetensors") std::filesystem::rename(Path("model.safetensors"), Path(file));
    writer_ = SafetensorsWriter();
  }
  void WriteText(const std::string& file, const std::string& text) {
    std::ofstream(Path(file), std::ios::binary) << text;
  }
  void WriteIndex(const std::string& weight_map) {
    WriteText("model.safetensors.index.json",
              "{\"metadata\":{\"total_size\":0},\"weight_map\":" + weight_map + "}");
  }
  void AddBytes(const std::string& tensor) { writer_.Add(tensor, DType::kU8, {2}, BytesOf<uint8_t>({1, 2})); }

  // Opens what WriteShard wrote, which must succeed.
  const Checkpoint& Open() {
    absl::StatusOr<std::unique_ptr<Checkpoint>> opened = Checkpoint::Open(folder_.path());
    EXPECT_TRUE(opened.ok()) << opened.status();
    checkpoint_ = opened.ok() ? *std::move(opened) : nullptr;
    return *checkpoint_;
  }
  std::string OpenError() const {
    const absl::Status status = Checkpoint::Open(folder_.path()).status();
    return status.ok() ? "opened" : std::string(status.message());
  }
  // Returns FindMatrix's error for module "m" [rows, cols] of the tensors added so far.
  std::string MatrixError(int64_t rows, int64_t cols) {
    writer_.Write(folder_.path());
    const absl::Status status = Open().FindMatrix("m", rows, cols, config_).status();
    return status.ok() ? "found" : std::string(status.message());
  }
  std::string InFile(const std::string& message) const {
    return Path("model.safetensors") + ": tensor " + message;
  }

  TemporaryFolder folder_;
  SafetensorsWriter writer_;
  ModelConfig config_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(CheckpointTest, OneFile) {
  AddBytes("b");
  AddBytes("a");
  WriteShard("model.safetensors");
  const Checkpoint& checkpoint = Open();
  EXPECT_THAT(checkpoint.TensorNames(), ElementsAre("a", "b"));
  EXPECT_TRUE(checkpoint.Has("a"));
  EXPECT_FALSE(checkpoint.Has("c"));
  EXPECT_EQ(checkpoint.Find("b")->data[1], std::byte{2});
  EXPECT_EQ(checkpoint.TotalBytes(), std::filesystem::file_size(Path("model.safetensors")));
}

TEST_F(CheckpointTest, ShardsOfAnyNameIncludingLinks) {
  AddBytes("a");
  WriteShard("model-1-of-61.safetensors");
  AddBytes("b");
  WriteShard("blob");
  std::filesystem::create_symlink("blob", Path("weights of b"));  // a download cache links to its blobs
  WriteIndex(R"({"a": "model-1-of-61.safetensors", "b": "weights of b"})");
  EXPECT_THAT(Open().TensorNames(), ElementsAre("a", "b"));
}

TEST_F(CheckpointTest, PathsThatAreNotACheckpointFolder) {
  EXPECT_EQ(Checkpoint::Open(Path("absent")).status().message(),
            Path("absent") +
                ": No such file or directory, expected the folder of a checkpoint, with config.json and "
                "*.safetensors");
  WriteText("file", "");
  EXPECT_THAT(std::string(Checkpoint::Open(Path("file")).status().message()),
              HasSubstr("file: not a folder, expected"));
  EXPECT_EQ(
      OpenError(),
      folder_.path().string() +
          ": holds neither model.safetensors.index.json nor model.safetensors, expected one of them; what "
          "numoe-pack has made is for workers alone");
}

TEST_F(CheckpointTest, TruncatedShardIsNamed) {
  AddBytes("a");
  WriteShard("s");
  std::filesystem::resize_file(Path("s"), std::filesystem::file_size(Path("s")) - 1);
  WriteIndex(R"({"a": "s"})");
  EXPECT_EQ(OpenError(),
            Path("model.safetensors.index.json") + ": " + Path("s") +
                ": tensor a: data_offsets [0, 2], expected begin <= end within the 1 bytes of data; is the "
                "file truncated?");
}

TEST_F(CheckpointTest, MissingShardIsNamed) {
  WriteIndex(R"({"a": "gone"})");
  EXPECT_EQ(OpenError(), Path("model.safetensors.index.json") + ": " + Path("gone") +
                             ": cannot open: No such file or directory");
}

TEST_F(CheckpointTest, FilesThatAreNotAnIndex) {
  const std::string index = Path("model.safetensors.index.json");
  WriteText("model.safetensors.index.json", "{\"weight_map\":");
  EXPECT_THAT(OpenError(), HasSubstr(index + ": not valid JSON at byte 15"));
  WriteText("model.safetensors.index.json", "[1]");
  EXPECT_EQ(OpenError(), index + ": [1], expected an object with a weight_map");
  WriteIndex("[\"a\"]");
  EXPECT_THAT(OpenError(), HasSubstr("\"weight_map\":[\"a\"]}, expected an object with a weight_map"));
  WriteIndex(R"({"a": "s", "a": "t"})");
  EXPECT_EQ(OpenError(), index + ": key \"a\" occurs twice, expected once");
}

TEST_F(CheckpointTest, IndexThatLeavesTheFolder) {
  for (const char* name :
       {"../model.safetensors", "/etc/passwd", "..", ".", "", "a/b", "model.safetensors\\u0000x", "a\\nb"}) {
    WriteIndex(std::string(R"({"a": ")") + name + "\"}");
    EXPECT_EQ(OpenError(), Path("model.safetensors.index.json") + ": tensor a: file \"" + name +
                               "\", expected the name of a file in the same folder");
  }
  WriteIndex(R"({"a": 3})");
  EXPECT_THAT(OpenError(), HasSubstr("tensor a: file 3, expected the name"));
}

TEST_F(CheckpointTest, IndexThatDisagreesWithItsShards) {
  AddBytes("a");
  WriteShard("s");
  AddBytes("b");
  WriteShard("t");
  WriteIndex(R"({"a": "s", "b": "t", "c": "t"})");
  EXPECT_EQ(OpenError(), Path("model.safetensors.index.json") + ": tensor c: expected in t, found nowhere");
  WriteIndex(R"({"a": "t", "b": "t", "x": "s"})");
  EXPECT_THAT(OpenError(), HasSubstr("tensor x: expected in s, found nowhere"));
  WriteIndex(R"({"b": "s", "a": "t"})");
  EXPECT_THAT(OpenError(), HasSubstr("tensor b: expected in s, found nowhere"));
}

TEST_F(CheckpointTest, TensorInTwoShards) {
  AddBytes("a");
  WriteShard("s");
  AddBytes("a");
  AddBytes("b");
  WriteShard("t");
  WriteIndex(R"({"a": "s", "b": "t"})");
  EXPECT_EQ(OpenError(), Path("model.safetensors.index.json") + ": " + Path("s") +
                             ": tensor a: is also in t, expected in one file");
}

TEST_F(CheckpointTest, MissingTensorNamesItsNeighbours) {
  AddBytes("model.layers.0.mlp.gate.weight");
  AddBytes("model.norm.weight");
  WriteShard("model.safetensors");
  const absl::Status status = Open().Find("model.layers.0.mlp.gates.weight").status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_EQ(status.message(),
            folder_.path().string() +
                ": tensor model.layers.0.mlp.gates.weight: is missing, expected by config.json; nearest "
                "by name: model.norm.weight, model.layers.0.mlp.gate.weight");
}

TEST_F(CheckpointTest, Vectors) {
  writer_.Add("f32", DType::kF32, {2}, BytesOf<float>({1.5f, -2.0f}));
  writer_.Add("bf16", DType::kBF16, {1}, BytesOf<uint16_t>({EncodeBf16(3.0f)}));
  writer_.Add("inf", DType::kF32, {2}, BytesOf<float>({1.0f, -std::numeric_limits<float>::infinity()}));
  writer_.Add("ints", DType::kI32, {1}, BytesOf<int32_t>({1}));
  WriteShard("model.safetensors");
  const Checkpoint& checkpoint = Open();
  EXPECT_THAT(*checkpoint.ReadVector("f32", 2), ElementsAre(1.5f, -2.0f));
  EXPECT_THAT(*checkpoint.ReadVector("bf16", 1), ElementsAre(3.0f));
  const auto error = [&](const char* name, int64_t size) {
    return std::string(checkpoint.ReadVector(name, size).status().message());
  };
  EXPECT_EQ(error("f32", 3), InFile("f32: shape [2], expected [3]"));
  EXPECT_EQ(error("inf", 2), InFile("inf: element 1 is -inf, expected a finite number"));
  EXPECT_EQ(error("ints", 1),
            InFile("ints: dtype I32, expected BF16, F16, F32 or a quantised weight with its scales"));
}

TEST_F(CheckpointTest, PlainMatrix) {
  writer_.AddLinear("m", MatrixFormat::kBF16, 3, 5, 1.0f);
  EXPECT_EQ(MatrixError(3, 5), "found");
  EXPECT_EQ(checkpoint_->FindMatrix("m", 3, 5, config_)->format, MatrixFormat::kBF16);
  EXPECT_EQ(MatrixError(5, 3), InFile("m.weight: shape [3, 5], expected [5, 3] by config.json"));
  writer_.Add("m.weight", DType::kF8E5M2, {1, 1}, BytesOf<uint8_t>({0}));
  EXPECT_EQ(MatrixError(1, 1),
            InFile("m.weight: dtype F8_E5M2, expected BF16, F16, F32 or a quantised weight with its scales"));
}

TEST_F(CheckpointTest, Fp8MatrixWithRaggedBlocks) {
  writer_.AddLinear("m", MatrixFormat::kFp8Block, 130, 257, 1.0f);
  ASSERT_EQ(MatrixError(130, 257), "found");
  const absl::StatusOr<MatrixView> m = checkpoint_->FindMatrix("m", 130, 257, config_);
  EXPECT_EQ(m->format, MatrixFormat::kFp8Block);
  EXPECT_EQ(m->scales.size(), 2u * 3 * sizeof(float));
  EXPECT_EQ(m->block_rows, 128);
}

TEST_F(CheckpointTest, Fp8ScalesInBf16) {
  writer_.AddLinear("m", MatrixFormat::kFp8Block, 4, 4, 1.0f);
  writer_.Add("m.weight_scale_inv", DType::kBF16, {1, 1}, BytesOf<uint16_t>({EncodeBf16(2.0f)}));
  ASSERT_EQ(MatrixError(4, 4), "found");
  EXPECT_EQ(checkpoint_->FindMatrix("m", 4, 4, config_)->scale_dtype, DType::kBF16);
}

TEST_F(CheckpointTest, Fp8Errors) {
  writer_.AddLinear("m", MatrixFormat::kFp8Block, 130, 4, 1.0f);
  writer_.Bytes("m.weight")[4 * 129 + 2] = std::byte{0xff};
  EXPECT_EQ(MatrixError(130, 4), InFile("m.weight: element [129, 2] is NaN, expected a number"));
  const float nan = std::nanf("");
  std::memcpy(writer_.Bytes("m.weight_scale_inv").data() + sizeof nan, &nan, sizeof nan);
  EXPECT_EQ(MatrixError(130, 4), InFile("m.weight_scale_inv: scale [1, 0] is nan, expected a finite number"));
  writer_.Add("m.weight_scale_inv", DType::kF32, {1, 1}, BytesOf<float>({1.0f}));
  EXPECT_EQ(MatrixError(130, 4), InFile("m.weight_scale_inv: shape [1, 1], expected [2, 1] by config.json"));
  writer_.Add("m.weight_scale_inv", DType::kI32, {2, 1}, BytesOf<int32_t>({1, 1}));
  EXPECT_EQ(MatrixError(130, 4), InFile("m.weight_scale_inv: dtype I32, expected F32, BF16 or F16"));
  writer_.Remove("m.weight_scale_inv");
  EXPECT_THAT(MatrixError(130, 4),
              HasSubstr(": tensor m.weight_scale_inv: is missing, expected by config.json"));
}

TEST_F(CheckpointTest, ScalesOfAWeightThatIsNotQuantised) {
  writer_.AddLinear("m", MatrixFormat::kBF16, 2, 2, 1.0f);
  writer_.Add("m.weight_scale_inv", DType::kF32, {1, 1}, BytesOf<float>({1.0f}));
  EXPECT_EQ(MatrixError(2, 2),
            InFile("m.weight: dtype BF16, expected F8_E4M3 because m.weight_scale_inv exists"));
}

TEST_F(CheckpointTest, Fp8NaNBeyondTheFirstBlockOfTheScan) {
  writer_.AddLinear("m", MatrixFormat::kFp8Block, 100, 100, 1.0f);
  ASSERT_EQ(MatrixError(100, 100), "found");
  writer_.Bytes("m.weight")[9999] = std::byte{0x7f};
  EXPECT_EQ(MatrixError(100, 100), InFile("m.weight: element [99, 99] is NaN, expected a number"));
}

TEST_F(CheckpointTest, Int4MatrixWithEitherShapeType) {
  writer_.AddLinear("m", MatrixFormat::kInt4Group, 3, 64, 1.0f);
  ASSERT_EQ(MatrixError(3, 64), "found");
  const absl::StatusOr<MatrixView> m = checkpoint_->FindMatrix("m", 3, 64, config_);
  EXPECT_EQ(m->format, MatrixFormat::kInt4Group);
  EXPECT_EQ(m->block_cols, 32);
  EXPECT_EQ(m->scale_dtype, DType::kBF16);
  writer_.Add("m.weight_shape", DType::kI64, {2}, BytesOf<int64_t>({3, 64}));
  EXPECT_EQ(MatrixError(3, 64), "found");
}

TEST_F(CheckpointTest, Int4ShapeErrors) {
  writer_.AddLinear("m", MatrixFormat::kInt4Group, 3, 64, 1.0f);
  EXPECT_EQ(MatrixError(4, 64), InFile("m.weight_packed: shape [3, 8], expected [4, 8] by config.json"));
  EXPECT_EQ(MatrixError(3, 48),
            InFile("m.weight_packed: 48 columns, expected a multiple of the group size 32"));
  writer_.Add("m.weight_shape", DType::kI32, {2}, BytesOf<int32_t>({3, 60}));
  EXPECT_EQ(MatrixError(3, 64), InFile("m.weight_shape: says [3, 60], expected [3, 64]"));
  writer_.Add("m.weight_shape", DType::kI32, {1}, BytesOf<int32_t>({3}));
  EXPECT_EQ(MatrixError(3, 64), InFile("m.weight_shape: I32 [1], expected I32 or I64 [2]"));
  writer_.Remove("m.weight_shape");
  EXPECT_THAT(MatrixError(3, 64), HasSubstr(": tensor m.weight_shape: is missing, expected by config.json"));
}

TEST_F(CheckpointTest, Int4ScaleAndFormatErrors) {
  writer_.AddLinear("m", MatrixFormat::kInt4Group, 3, 64, 1.0f);
  const uint16_t infinity = 0x7f80;
  std::memcpy(writer_.Bytes("m.weight_scale").data() + 5 * sizeof infinity, &infinity, sizeof infinity);
  EXPECT_EQ(MatrixError(3, 64), InFile("m.weight_scale: scale [2, 1] is inf, expected a finite number"));
  writer_.Add("m.weight_scale", DType::kBF16, {3, 1}, BytesOf<uint16_t>({0, 0, 0}));
  EXPECT_EQ(MatrixError(3, 64), InFile("m.weight_scale: shape [3, 1], expected [3, 2] by config.json"));
  writer_.Add("m.weight_zero_point", DType::kI32, {1, 2}, BytesOf<int32_t>({0, 0}));
  EXPECT_EQ(
      MatrixError(3, 64),
      InFile("m.weight_zero_point: is present, expected symmetric groups in column order, which have none"));
  writer_.Remove("m.weight_zero_point");
  writer_.Add("m.weight_packed", DType::kU8, {3, 32}, std::vector<std::byte>(96));
  EXPECT_EQ(MatrixError(3, 64), InFile("m.weight_packed: dtype U8, expected I32"));
}

// The committed checkpoints, written by the reference implementation: every tensor is covered by its file's
// header.
TEST(GoldenCheckpointTest, AllOpen) {
  int opened = 0;
  for (const auto& entry : std::filesystem::directory_iterator("tests/golden/data")) {
    if (!std::filesystem::exists(entry.path() / "config.json")) continue;
    const absl::StatusOr<std::unique_ptr<Checkpoint>> checkpoint = Checkpoint::Open(entry.path());
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    EXPECT_GT((*checkpoint)->TensorNames().size(), 20u) << entry.path();
    const absl::StatusOr<ModelConfig> config = ReadModelConfig(entry.path());
    ASSERT_TRUE(config.ok()) << config.status();
    const auto head =
        (*checkpoint)
            ->FindMatrix(config->tensor_prefix + "lm_head", config->vocab_size, config->hidden_size, *config);
    EXPECT_TRUE(head.ok()) << head.status();
    ++opened;
  }
  EXPECT_GE(opened, 6);
}

}  // namespace
}  // namespace numoe
