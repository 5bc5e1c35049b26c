#include "tests/amx_emulator/tile_unit.h"

#include <xmmintrin.h>

#include <cstring>
#include <initializer_list>

namespace numoe::amx_emulator {
namespace {

// Layout of the 64-byte configuration: palette, start row, 14 reserved, 16 x u16 row bytes, 16 x u8 rows.
constexpr int kConfigRowBytes = 16;
constexpr int kConfigRows = 48;

bool AllZero(const uint8_t* bytes, int begin, int end) {
  for (int i = begin; i < end; ++i) {
    if (bytes[i] != 0) return false;
  }
  return true;
}

float FromBf16(const uint8_t* bytes) {
  uint16_t half;
  std::memcpy(&half, bytes, sizeof half);
  const uint32_t bits = static_cast<uint32_t>(half) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// All exceptions masked, flush to zero, denormals are zero, round to nearest.
constexpr unsigned kTileMxcsr = 0x9fc0;

class ScopedMxcsr {
 public:
  ScopedMxcsr() : saved_(_mm_getcsr()) { _mm_setcsr(kTileMxcsr); }
  ~ScopedMxcsr() { _mm_setcsr(saved_); }
  ScopedMxcsr(const ScopedMxcsr&) = delete;
  ScopedMxcsr& operator=(const ScopedMxcsr&) = delete;

 private:
  const unsigned saved_;
};

// Computes one row of C in fp32: sums over k of A's pairs times B's rows of pairs. It is not inline, because
// the compiler may move arithmetic across a change of MXCSR, but not across a call.
[[gnu::noinline]] void DotBf16Row(const uint8_t* a, const uint8_t (*b)[kTileRowBytesMax], int pairs,
                                  int outputs, uint8_t* c) {
  float even[kTileRowBytesMax / 4] = {};
  float odd[kTileRowBytesMax / 4] = {};
  for (int k = 0; k < pairs; ++k) {
    const float a_even = FromBf16(a + 4 * k);
    const float a_odd = FromBf16(a + 4 * k + 2);
    for (int n = 0; n < outputs; ++n) {
      even[n] = __builtin_fmaf(a_even, FromBf16(b[k] + 4 * n), even[n]);
      odd[n] = __builtin_fmaf(a_odd, FromBf16(b[k] + 4 * n + 2), odd[n]);
    }
  }
  for (int n = 0; n < outputs; ++n) {
    float sum;
    std::memcpy(&sum, c + 4 * n, sizeof sum);
    sum = sum + (even[n] + odd[n]);
    std::memcpy(c + 4 * n, &sum, sizeof sum);
  }
}

int Byte(uint8_t value, bool is_signed) { return is_signed ? static_cast<int8_t>(value) : value; }

}  // namespace

TileUnit::Refusal TileUnit::LoadConfig(const uint8_t* config) {
  uint8_t c[kConfigBytes];
  std::memcpy(c, config, sizeof c);
  if (c[0] == 0) {
    Release();
    return nullptr;
  }
  if (c[0] != 1) return "palette is not 0 or 1";
  if (!AllZero(c, 2, kConfigRowBytes)) return "reserved bytes 2 to 15 are not zero";
  uint16_t row_bytes[kTiles];
  std::memcpy(row_bytes, c + kConfigRowBytes, sizeof row_bytes);
  const uint8_t* rows = c + kConfigRows;
  if (!AllZero(c, kConfigRowBytes + 2 * kTiles, kConfigRows))
    return "row bytes of tiles 8 to 15 are not zero";
  if (!AllZero(c, kConfigRows + kTiles, kConfigBytes)) return "rows of tiles 8 to 15 are not zero";
  for (int i = 0; i < kTiles; ++i) {
    if (row_bytes[i] > kTileRowBytesMax) return "a tile has more than 64 bytes a row";
    if (rows[i] > kTileRowsMax) return "a tile has more than 16 rows";
    if ((row_bytes[i] == 0) != (rows[i] == 0)) return "a tile has rows or row bytes, but not both";
  }
  Release();
  palette_ = c[0];
  start_row_ = c[1];
  std::memcpy(row_bytes_, row_bytes, sizeof row_bytes_);
  std::memcpy(rows_, rows, sizeof rows_);
  return nullptr;
}

void TileUnit::StoreConfig(uint8_t* config) const {
  std::memset(config, 0, kConfigBytes);
  config[0] = palette_;
  config[1] = start_row_;
  std::memcpy(config + kConfigRowBytes, row_bytes_, sizeof row_bytes_);
  std::memcpy(config + kConfigRows, rows_, sizeof rows_);
}

void TileUnit::Release() {
  palette_ = 0;
  start_row_ = 0;
  std::memset(row_bytes_, 0, sizeof row_bytes_);
  std::memset(rows_, 0, sizeof rows_);
  std::memset(data_, 0, sizeof data_);
}

TileUnit::Refusal TileUnit::CheckTile(unsigned tile) const {
  if (palette_ == 0) return "tiles are not configured";
  if (tile >= kTiles) return "tile number above 7";
  if (rows_[tile] == 0) return "the tile is not in the configuration";
  if (row_bytes_[tile] % 4 != 0) return "the tile's row bytes are not a multiple of 4";
  return nullptr;
}

TileUnit::Refusal TileUnit::CheckDot(DotTiles t) const {
  if (t.c == t.a || t.c == t.b || t.a == t.b) return "the three tiles are not distinct";
  for (const unsigned tile : {t.c, t.a, t.b}) {
    if (Refusal refusal = CheckTile(tile)) return refusal;
  }
  if (row_bytes_[t.c] != row_bytes_[t.b]) return "destination and second source differ in row bytes";
  if (rows_[t.c] != rows_[t.a]) return "destination and first source differ in rows";
  if (row_bytes_[t.a] / 4 != rows_[t.b])
    return "first source's row bytes / 4 are not the second source's rows";
  return nullptr;
}

// Every write zeroes the part of the tile outside of its configured size, and restarts interrupted loads from
// row 0.
void TileUnit::FinishWrite(unsigned tile) {
  const int rows = rows_[tile];
  const int bytes = row_bytes_[tile];
  for (int r = 0; r < rows; ++r)
    std::memset(data_[tile][r] + bytes, 0, static_cast<size_t>(kTileRowBytesMax - bytes));
  for (int r = rows; r < kTileRowsMax; ++r) std::memset(data_[tile][r], 0, kTileRowBytesMax);
  start_row_ = 0;
}

TileUnit::Refusal TileUnit::Zero(unsigned tile) {
  if (Refusal refusal = CheckTile(tile)) return refusal;
  std::memset(data_[tile], 0, sizeof data_[tile]);
  start_row_ = 0;
  return nullptr;
}

TileUnit::Refusal TileUnit::Load(unsigned tile, uint64_t base, uint64_t stride) {
  if (Refusal refusal = CheckTile(tile)) return refusal;
  if (start_row_ >= rows_[tile]) return "start row is outside the tile";
  for (uint64_t r = start_row_; r < rows_[tile]; ++r) {
    std::memcpy(data_[tile][r], reinterpret_cast<const void*>(base + r * stride), row_bytes_[tile]);
  }
  FinishWrite(tile);
  return nullptr;
}

TileUnit::Refusal TileUnit::Store(unsigned tile, uint64_t base, uint64_t stride) {
  if (Refusal refusal = CheckTile(tile)) return refusal;
  if (start_row_ >= rows_[tile]) return "start row is outside the tile";
  for (uint64_t r = start_row_; r < rows_[tile]; ++r) {
    std::memcpy(reinterpret_cast<void*>(base + r * stride), data_[tile][r], row_bytes_[tile]);
  }
  start_row_ = 0;
  return nullptr;
}

TileUnit::Refusal TileUnit::DotInt8(DotTiles t, bool a_signed, bool b_signed) {
  if (Refusal refusal = CheckDot(t)) return refusal;
  const int quads = row_bytes_[t.a] / 4;
  const int outputs = row_bytes_[t.c] / 4;
  for (int m = 0; m < rows_[t.c]; ++m) {
    const uint8_t* a = data_[t.a][m];
    uint32_t sums[kTileRowBytesMax / 4];  // unsigned: overflow wraps
    std::memcpy(sums, data_[t.c][m], sizeof sums);
    for (int k = 0; k < quads; ++k) {
      const uint8_t* b = data_[t.b][k];
      for (int n = 0; n < outputs; ++n) {
        for (int i = 0; i < 4; ++i) {
          sums[n] += static_cast<uint32_t>(Byte(a[4 * k + i], a_signed) * Byte(b[4 * n + i], b_signed));
        }
      }
    }
    std::memcpy(data_[t.c][m], sums, sizeof sums);
  }
  FinishWrite(t.c);
  return nullptr;
}

TileUnit::Refusal TileUnit::DotBf16(DotTiles t) {
  if (Refusal refusal = CheckDot(t)) return refusal;
  const ScopedMxcsr mxcsr;
  for (int m = 0; m < rows_[t.c]; ++m) {
    DotBf16Row(data_[t.a][m], data_[t.b], row_bytes_[t.a] / 4, row_bytes_[t.c] / 4, data_[t.c][m]);
  }
  FinishWrite(t.c);
  return nullptr;
}

}  // namespace numoe::amx_emulator
