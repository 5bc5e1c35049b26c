// AMX: tiles for 16 tokens and more; fewer tokens, and exact calls, run the AVX-512 loops of matmul.inc.
//
// BF16 tiles (tdpbf16ps) take every format: a step's weights are decoded, scale applied, to BF16 pairs, and
// sums stay in the tile over all inputs. int8 has INT8 tiles (tdpbssd): activations are quantised per token
// in the weights' groups of 32, and each group's tile is folded with both scales.
#include <immintrin.h>

#include "common/kernels/attention.inc"
#include "common/kernels/attention_avx512.inc"
#include "common/kernels/kernel_table.h"
#include "common/kernels/layout.h"
#include "common/kernels/matmul.inc"
#include "common/kernels/rounded_avx512.inc"

namespace numoe {
namespace {

constexpr int kTileTokens = 16;
// gcc 12's tile intrinsics name too little memory as their input: what fills a tile must be stored before
// this line.
#define NUMOE_TILE_BARRIER() asm volatile("" ::: "memory")

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16};
};

// tmm0, tmm1: sums of outputs 0-15 and 16-31; tmm2: activations; tmm3: weights. `weight_rows` words of inputs
// each.
void ConfigureTiles(int tokens, int weight_rows) {
  TileConfig config;
  config.rows[0] = config.rows[1] = config.rows[2] = static_cast<uint8_t>(tokens);
  config.rows[3] = static_cast<uint8_t>(weight_rows);
  config.row_bytes[2] = static_cast<uint16_t>(weight_rows * 4);
  NUMOE_TILE_BARRIER();
  _tile_loadconfig(&config);
}

struct alignas(64) Bf16Step {
  uint16_t weight[2][kStep / 2][16][2];  // [half][k pair][output][2]
  uint16_t x[kTileTokens][kStep];
};

inline void RoundToBf16(const float* in, uint16_t* out) {  // 32 values
  const __m512bh v = _mm512_cvtne2ps_pbh(_mm512_loadu_ps(in + 16), _mm512_loadu_ps(in));
  __builtin_memcpy(out, &v, sizeof v);
}

void LoadActivations(const MatmulArgs& a, int first_token, int tokens, int col, Bf16Step& out) {
  const int width = a.weight.cols - col < kStep ? a.weight.cols - col : kStep;
  for (int t = 0; t < tokens; ++t) {
    alignas(64) float row[kStep] = {};
    __builtin_memcpy(row, a.x + (first_token + t) * a.x_stride + col,
                     static_cast<size_t>(width) * sizeof(float));
    RoundToBf16(row, out.x[t]);
    RoundToBf16(row + 32, out.x[t] + 32);
  }
}

void LoadWeightPairs(const PackedMatrix& w, const std::byte* panel, int step, Bf16Step& out) {
  if (w.format == WeightFormat::kBf16) {
    __builtin_memcpy(out.weight, panel + static_cast<size_t>(step) * sizeof out.weight, sizeof out.weight);
    return;
  }
  StepBlock block;
  DecodeStep(w, panel, step, block);
  for (int half = 0; half < 2; ++half) {
    for (int pair = 0; pair < kStep / 2; ++pair) {
      // Two rows of 16 outputs, rounded and interleaved into pairs.
      const __m512 even = _mm512_load_ps(&block.weight[2 * pair][half * 16]);
      const __m512 odd = _mm512_load_ps(&block.weight[2 * pair + 1][half * 16]);
      const __m256i low = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(even));
      const __m256i high = reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(odd));
      const __m512i wide =
          _mm512_or_si512(_mm512_cvtepu16_epi32(low), _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
      _mm512_store_si512(&out.weight[half][pair], wide);
    }
  }
}

void StoreSums(const MatmulArgs& a, int first_row, int first_token, int tokens,
               const float (*sums)[kPanelRows]) {
  const int rows = a.row_end - first_row < kPanelRows ? a.row_end - first_row : kPanelRows;
  for (int t = 0; t < tokens; ++t) {
    __builtin_memcpy(a.y + (first_token + t) * a.y_stride + (first_row - a.row_begin), sums[t],
                     static_cast<size_t>(rows) * sizeof(float));
  }
}

void Bf16Panel(const MatmulArgs& a, const std::byte* panel, int first_row, int first_token, int tokens) {
  ConfigureTiles(tokens, 16);
  _tile_zero(0);
  _tile_zero(1);
  Bf16Step s;
  for (int step = 0; step < layout::Steps(a.weight.cols); ++step) {
    LoadWeightPairs(a.weight, panel, step, s);
    LoadActivations(a, first_token, tokens, step * kStep, s);
    NUMOE_TILE_BARRIER();
    for (int part = 0; part < 2; ++part) {  // 32 inputs a tile
      _tile_loadd(2, &s.x[0][part * 32], sizeof s.x[0]);
      _tile_loadd(3, s.weight[0][part * 16], 64);
      _tile_dpbf16ps(0, 2, 3);
      _tile_loadd(3, s.weight[1][part * 16], 64);
      _tile_dpbf16ps(1, 2, 3);
    }
    NUMOE_TILE_BARRIER();
  }
  alignas(64) float sums[kTileTokens][kPanelRows];
  _tile_stored(0, &sums[0][0], sizeof sums[0]);
  _tile_stored(1, &sums[0][16], sizeof sums[0]);
  NUMOE_TILE_BARRIER();
  StoreSums(a, first_row, first_token, tokens, sums);
}

struct alignas(64) Int8Group {
  int8_t x[kTileTokens][layout::kGroup];
  float scale[kTileTokens];
};

// One group of 32 inputs of each token to INT8: scale = largest magnitude / 127.
void QuantiseActivations(const MatmulArgs& a, int first_token, int tokens, int col, Int8Group& out) {
  for (int t = 0; t < tokens; ++t) {
    const float* row = a.x + (first_token + t) * a.x_stride + col;
    const __m512 low = _mm512_loadu_ps(row);
    const __m512 high = _mm512_loadu_ps(row + 16);
    const float top = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
    const __m512 inverse = _mm512_set1_ps(top > 0 ? 127.0f / top : 0.0f);
    out.scale[t] = top / 127.0f;
    _mm_store_si128(reinterpret_cast<__m128i*>(out.x[t]),
                    _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(low, inverse))));
    _mm_store_si128(reinterpret_cast<__m128i*>(out.x[t] + 16),
                    _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(_mm512_mul_ps(high, inverse))));
  }
}

void Int8Panel(const MatmulArgs& a, const std::byte* panel, int first_row, int first_token, int tokens) {
  ConfigureTiles(tokens, layout::kGroup / 4);
  alignas(64) float sums[kTileTokens][kPanelRows] = {};
  alignas(64) int32_t products[kTileTokens][kPanelRows];
  Int8Group group;
  for (int col = 0; col < a.weight.cols; col += layout::kGroup) {
    const std::byte* step = panel + static_cast<size_t>(col / kStep) * layout::StepBytes(WeightFormat::kInt8);
    const int g = col / layout::kGroup % 2;
    const auto* scales = reinterpret_cast<const float*>(step + layout::kInt8Codes) + g * kPanelRows;
    QuantiseActivations(a, first_token, tokens, col, group);
    NUMOE_TILE_BARRIER();
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, &group.x[0][0], sizeof group.x[0]);
    _tile_loadd(3, step + g * 8 * 64, 64);
    _tile_dpbssd(0, 2, 3);
    _tile_loadd(3, step + (16 + g * 8) * 64, 64);
    _tile_dpbssd(1, 2, 3);
    _tile_stored(0, &products[0][0], sizeof products[0]);
    _tile_stored(1, &products[0][16], sizeof products[0]);
    NUMOE_TILE_BARRIER();
    for (int t = 0; t < tokens; ++t) {
      for (int n = 0; n < kPanelRows; ++n) {
        sums[t][n] += static_cast<float>(products[t][n]) * (scales[n] * group.scale[t]);
      }
    }
  }
  StoreSums(a, first_row, first_token, tokens, sums);
}

void MatmulTiles(const MatmulArgs& a) {
  if (a.exact || a.tokens < kTileTokens) return MatmulPanels(a);
  const size_t panel_bytes = layout::PanelBytes(a.weight.format, a.weight.cols);
  for (int row = a.row_begin; row < a.row_end; row += kPanelRows) {
    const std::byte* panel = a.weight.data + static_cast<size_t>(row / kPanelRows) * panel_bytes;
    for (int token = 0; token < a.tokens; token += kTileTokens) {
      const int tokens = a.tokens - token < kTileTokens ? a.tokens - token : kTileTokens;
      if (a.weight.format == WeightFormat::kInt8) {
        Int8Panel(a, panel, row, token, tokens);
      } else {
        Bf16Panel(a, panel, row, token, tokens);
      }
    }
  }
  _tile_release();
}

}  // namespace

extern const KernelTable kKernelsAmx;
const KernelTable kKernelsAmx = {
    MatmulTiles,         SwiGluVectors,  HasRounded,
    MatmulRoundedPanels, RoundRowAvx512, {PackKeysShuffled, PackValuesShuffled, SoftmaxRow, JoinRows}};

}  // namespace numoe
