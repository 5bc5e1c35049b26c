// Tensors of a GGUF model under the names that the engine asks for, in all the ways in which files store
// them, and errors for those that differ from the metadata.
// tests/unit/coordinator/execution/model/gguf_logits_test.cc shows that every format and layout gives the
// right logits.
#include "common/weights/gguf_checkpoint.h"

#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/ggml_encode.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

constexpr int kRows = 4, kCols = 32, kExperts = 3;

// A weight's value is its position in the tensor: expert * 1000 + row * 10, which F32 and F16 represent
// exactly.
std::vector<float> Numbered(int experts, int rows, float first = 0) {
  std::vector<float> values;
  for (int e = 0; e < experts; ++e)
    for (int r = 0; r < rows; ++r)
      values.insert(values.end(), kCols, first + static_cast<float>(e * 1000 + r * 10));
  return values;
}

class GgufCheckpointTest : public ::testing::Test {
 protected:
  GgufCheckpointTest() { config_.num_experts = kExperts; }

  void Add(const std::string& name, const Shape& shape, const std::vector<float>& values,
           GgmlType type = GgmlType::kF32) {
    writer_.AddTensor(name, type, shape, EncodeGgml(type, values));
  }
  const Checkpoint& Open() {
    writer_.Write(folder_.path() / "m.gguf");
    auto opened = Checkpoint::Open(folder_.path());
    EXPECT_TRUE(opened.ok()) << opened.status();
    checkpoint_ = *std::move(opened);
    return *checkpoint_;
  }
  std::vector<float> Decoded(const std::string& module, int rows = kRows, int cols = kCols) {
    const auto view = Open().FindMatrix(module, rows, cols, config_);
    EXPECT_TRUE(view.ok()) << view.status();
    if (!view.ok()) return {};
    std::vector<float> values(static_cast<size_t>(rows) * cols);
    DecodeMatrix(*view, 0, rows, 0, cols, absl::MakeSpan(values));
    return values;
  }
  std::string MatrixError(const std::string& module, int rows = kRows, int cols = kCols) {
    const absl::Status status = Open().FindMatrix(module, rows, cols, config_).status();
    return status.ok() ? "found" : std::string(status.message());
  }
  static std::string Expert(int e, const char* part) {
    return "model.layers.1.mlp.experts." + std::to_string(e) + "." + part + "_proj";
  }

  TemporaryFolder folder_;
  GgufWriter writer_;
  ModelConfig config_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

TEST_F(GgufCheckpointTest, PlainTypesAndBlocks) {
  const std::vector<float> values = Numbered(1, kRows);
  Add("blk.0.attn_q.weight", {kRows, kCols}, values);
  Add("blk.1.attn_q.weight", {kRows, kCols}, values, GgmlType::kF16);
  Add("blk.2.attn_q.weight", {kRows, kCols}, values, GgmlType::kQ8_0);
  for (int layer = 0; layer < 3; ++layer) {
    const std::string module = "model.layers." + std::to_string(layer) + ".self_attn.q_proj";
    const std::vector<float> decoded = Decoded(module);
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(decoded[i], values[i], 0.02) << layer;
    EXPECT_TRUE(checkpoint_->Has(module + ".weight"));
    const MatrixView view = *checkpoint_->FindMatrix(module, kRows, kCols, config_);
    EXPECT_EQ(view.format, layer == 0   ? MatrixFormat::kF32
                           : layer == 1 ? MatrixFormat::kF16
                                        : MatrixFormat::kGgml);
    EXPECT_EQ(checkpoint_->Find(module + ".weight").ok(), layer < 2) << "blocks are not elements";
  }
  EXPECT_FALSE(checkpoint_->Has("model.layers.3.self_attn.q_proj.weight"));
  EXPECT_EQ(checkpoint_->TensorNames().size(), 3u);
  EXPECT_EQ(checkpoint_->TotalBytes(), std::filesystem::file_size(folder_.path() / "m.gguf"));
}

TEST_F(GgufCheckpointTest, MergedExperts) {
  Add("blk.1.ffn_gate_exps.weight", {kExperts, kRows, kCols}, Numbered(kExperts, kRows), GgmlType::kF16);
  Add("blk.1.ffn_down_exps.weight", {kExperts, kRows, kCols}, Numbered(kExperts, kRows, 4));
  for (int e = 0; e < kExperts; ++e) {
    EXPECT_EQ(Decoded(Expert(e, "gate"))[3 * kCols], static_cast<float>(e * 1000 + 30)) << e;
    EXPECT_EQ(Decoded(Expert(e, "down"))[2 * kCols + 31], static_cast<float>(e * 1000 + 24)) << e;
  }
  EXPECT_THAT(
      MatrixError(Expert(0, "up")),
      HasSubstr("tensor blk.1.ffn_up_exps.weight: is missing, expected by the metadata; nearest by name: "
                "blk.1.ffn_gate_exps.weight"));
  EXPECT_THAT(MatrixError(Expert(kExperts, "gate")), HasSubstr("expert 3 of 3"));
  EXPECT_THAT(
      MatrixError(Expert(0, "gate"), kRows + 1),
      HasSubstr("tensor blk.1.ffn_gate_exps.weight: shape [3, 4, 32], expected [3, 5, 32] by the metadata"));
}

TEST_F(GgufCheckpointTest, BytesKnowTheirFileAndTensor) {
  for (int layer = 0; layer < 4; ++layer)
    Add("blk." + std::to_string(layer) + ".attn_q.weight", {kRows, kCols}, Numbered(1, kRows));
  writer_.WriteParts(folder_.path(), "m", 2);
  const auto checkpoint = Checkpoint::Open(folder_.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const MatrixView view =
      *(*checkpoint)->LocateMatrix("model.layers.3.self_attn.q_proj", kRows, kCols, config_);
  const MappedFile* file = (*checkpoint)->FileOf(view.data.subspan(8, 8));
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(file->path().filename(), "m-00002-of-00002.gguf");
  EXPECT_THAT((*checkpoint)->DescribeBytes(view.data.subspan(8)),
              HasSubstr("m-00002-of-00002.gguf: tensor blk.3.attn_q.weight"));
  EXPECT_EQ((*checkpoint)->FileOf(std::vector<std::byte>(8)), nullptr);
}

TEST_F(GgufCheckpointTest, FusedGateAndUp) {
  Add("blk.1.ffn_gate_up_exps.weight", {kExperts, 2 * kRows, kCols}, Numbered(kExperts, 2 * kRows));
  for (int e = 0; e < kExperts; ++e) {
    EXPECT_EQ(Decoded(Expert(e, "gate"))[kCols], static_cast<float>(e * 1000 + 10))
        << "gate's rows come first";
    EXPECT_EQ(Decoded(Expert(e, "up"))[kCols], static_cast<float>(e * 1000 + 50)) << e;
  }
  EXPECT_THAT(MatrixError(Expert(0, "down")), HasSubstr("tensor blk.1.ffn_down_exps.weight: is missing"));
}

TEST_F(GgufCheckpointTest, OneTensorForEachExpert) {
  for (int e = 0; e < kExperts; ++e) {
    Add("blk.1.ffn_up." + std::to_string(e) + ".weight", {kRows, kCols},
        Numbered(1, kRows, static_cast<float>(100 * e)));
  }
  EXPECT_EQ(Decoded(Expert(2, "up"))[0], 200.0f);
  EXPECT_EQ(Decoded(Expert(1, "up"))[kCols], 110.0f);
}

TEST_F(GgufCheckpointTest, HeadsInOneTensor) {
  Add("blk.0.attn_k_b.weight", {kExperts, kRows, kCols}, Numbered(kExperts, kRows));
  EXPECT_EQ(Decoded("model.layers.0.self_attn.k_b_proj", kExperts * kRows)[5 * kCols], 1010.0f);
  EXPECT_THAT(MatrixError("model.layers.0.self_attn.k_b_proj", kExperts * kRows - 1),
              HasSubstr("shape [3, 4, 32], expected [11, 32] by the metadata"));
}

TEST_F(GgufCheckpointTest, Vectors) {
  Add("output_norm.weight", {5}, {1, 2, 3, 4, 5});
  EXPECT_THAT(*Open().ReadVector("model.norm.weight", 5), ::testing::ElementsAre(1, 2, 3, 4, 5));
  EXPECT_THAT(std::string(checkpoint_->ReadVector("model.norm.weight", 6).status().message()),
              HasSubstr("m.gguf: tensor output_norm.weight: shape [5], expected [6] by the metadata"));
  writer_.RemoveTensor("output_norm.weight");
  std::vector<std::byte> bytes(8);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::memcpy(bytes.data() + 4, &nan, sizeof nan);
  writer_.AddTensor("output_norm.weight", GgmlType::kF32, {2}, bytes);
  EXPECT_THAT(std::string(Open().ReadVector("model.norm.weight", 2).status().message()),
              HasSubstr("element 1 is nan, expected a finite number"));
}

TEST_F(GgufCheckpointTest, MissingTensorsNameGgufsName) {
  Add("blk.0.attn_q.weight", {kRows, kCols}, Numbered(1, kRows));
  EXPECT_THAT(
      MatrixError("model.layers.0.self_attn.o_proj"),
      HasSubstr("tensor blk.0.attn_output.weight: is missing, expected by the metadata; nearest by name: "
                "blk.0.attn_q.weight"));
  EXPECT_THAT(MatrixError("no.such.module"), HasSubstr("tensor no.such.module.weight: is missing"));
}

}  // namespace
}  // namespace numoe
