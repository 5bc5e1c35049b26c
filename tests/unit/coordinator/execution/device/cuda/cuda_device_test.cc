// The device chooses how products are computed: steps of many tokens on a card with wgmma use the matrix
// library, with the same results as the product kernels.
#include "coordinator/execution/device/cuda/cuda_device.h"

#include <cmath>
#include <random>

#include "common/formats/bf16.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kRows = kExpandTokensMin;  // tokens of the step, enough for the library
constexpr int kIn = 64;
constexpr int kOut = 40;
constexpr int kVocabulary = 16;

std::vector<std::byte> RandomBf16(int values, std::mt19937& random) {
  std::vector<std::byte> bytes(static_cast<size_t>(values) * 2);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (int i = 0; i < values; ++i) {
    const uint16_t bits = EncodeBf16(uniform(random));
    std::memcpy(&bytes[static_cast<size_t>(i) * 2], &bits, sizeof bits);
  }
  return bytes;
}

MatrixView View(const std::vector<std::byte>& bytes, int rows, int cols) {
  return {.format = MatrixFormat::kBF16,
          .rows = rows,
          .cols = cols,
          .data = absl::MakeConstSpan(bytes).subspan(
              0, static_cast<size_t>(rows) * static_cast<size_t>(cols) * 2)};
}

// Returns logits = down (silu(gate x) * up x), where x is the embedding's row, for every row of the step.
std::vector<float> LogitsOn(int compute_major) {
  std::mt19937 random(7);
  const auto table = RandomBf16(kVocabulary * kIn, random), gate = RandomBf16(kOut * kIn, random),
             up = RandomBf16(kOut * kIn, random), down = RandomBf16(kIn * kIn, random);
  auto device = CudaDevice::Create({.rows = kRows, .sequences = 1, .blocks_per_sequence = kRows / 16},
                                   NewSimulatedRuntime({.compute_major = compute_major}));
  EXPECT_TRUE(device.ok()) << device.status();
  CudaDevice& d = **device;
  const Tensor residual = d.store().NewTensor(kIn, TensorUse::kResidual), x = d.store().NewTensor(kIn),
               inner = d.store().NewTensor(kOut), logits = d.store().NewTensor(kIn, TensorUse::kLogits);
  const Matrix embedding = *d.store().LoadEmbedding(View(table, kVocabulary, kIn));
  const GatedMatrix gated = *d.store().LoadGated(View(gate, kOut, kIn), View(up, kOut, kIn));
  const Matrix last = *d.store().LoadMatrix(View(down, kIn, kOut)),
               head = *d.store().LoadMatrix(View(down, kIn, kIn));
  const Vector ones = d.store().LoadVector(std::vector<float>(kIn, 1.0f));
  d.store().NewCache(
      {.layers = 1, .row = {.heads = 1, .key_width = 32, .value_width = 32}, .query_heads = 1});
  const absl::Status reserved = d.ReserveKvCache({.blocks = 1, .block_tokens = 16});
  EXPECT_TRUE(reserved.ok()) << reserved;
  StepLayout layout{.blocks_per_sequence_max = 1};
  layout.block_tables = {0};
  for (int r = 0; r < kRows; ++r) {
    layout.tokens.push_back(r % kVocabulary);
    layout.positions.push_back(0);
    layout.sequences.push_back(0);
    layout.logit_rows.push_back(r);
  }
  const std::unique_ptr<Step> step = d.Begin(layout);
  const Rows all = step->all();
  step->ops().Embed(all, embedding, residual);
  step->ops().RmsNorm(all, {residual}, kIn, ones, 1e-6f, {x});
  step->ops().GatedLinear(all, x, gated, inner);
  step->ops().Linear(all, inner, {{last, {residual}, /*accumulate=*/true}});
  step->ops().RmsNorm(all, {residual}, kIn, ones, 1e-6f, {x});
  step->ops().Linear(all, x, {{head, {logits}}});
  const auto output = step->ReadLogits(all, logits);
  EXPECT_TRUE(output.ok()) << output.status();
  return {output->logits.begin(), output->logits.end()};
}

TEST(CudaDeviceTest, TheLibraryAndTheKernelsAgree) {
  const std::vector<float> tiles = LogitsOn(/*compute_major=*/8), library = LogitsOn(/*compute_major=*/9);
  ASSERT_EQ(tiles.size(), library.size());
  double worst = 0, size = 0;
  for (size_t i = 0; i < tiles.size(); ++i) {
    worst = std::max(worst, std::fabs(static_cast<double>(tiles[i]) - library[i]));
    size = std::max(size, std::fabs(static_cast<double>(tiles[i])));
  }
  // With the library, gate and up are rounded to BF16 before they are multiplied: two more roundings of 2^-9
  // for each term.
  EXPECT_LE(worst, size / 64);
  EXPECT_GT(worst, 0) << "equal bits mean that the library was not used";
}

}  // namespace
}  // namespace numoe::execution::cuda
