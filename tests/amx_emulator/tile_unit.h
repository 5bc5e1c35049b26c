// The state and arithmetic of Intel AMX in software: eight tiles, their configuration, the dot products.
//
// It gives bit for bit what the instruction set reference specifies (Intel SDM vol. 2, "Intel AMX Instruction
// Set Reference"). INT8 sums wrap. BF16 sums are added in even and odd lanes by fused multiply-add, beginning
// with +0, then even + odd, then + C, with denormal inputs taken as zero, denormal results flushed to zero,
// and rounding to nearest, whatever MXCSR says. If real hardware would refuse an operation, the reason is
// returned and nothing is changed. One thread owns an object. It uses no library code that could allocate,
// because it runs inside a signal handler.
#pragma once

#include <cstdint>

namespace numoe::amx_emulator {

inline constexpr int kTiles = 8;
inline constexpr int kTileRowsMax = 16;
inline constexpr int kTileRowBytesMax = 64;
inline constexpr int kConfigBytes = 64;

/// Tile numbers of a dot product: destination (C += A * B), first source A, second source B.
struct DotTiles {
  unsigned c;
  unsigned a;
  unsigned b;
};

class TileUnit {
 public:
  /// Returns the reason why the hardware would fault, or nullptr.
  using Refusal = const char*;

  /// LDTILECFG and STTILECFG. `config` has 64 bytes. A refused configuration is #GP, every other refusal is
  /// #UD.
  Refusal LoadConfig(const uint8_t* config);
  void StoreConfig(uint8_t* config) const;
  /// TILERELEASE: returns to the state before any configuration.
  void Release();

  Refusal Zero(unsigned tile);
  /// TILELOADD: loads row r of the tile from address base + r * stride, up to the tile's configured size; the
  /// rest becomes zero.
  Refusal Load(unsigned tile, uint64_t base, uint64_t stride);
  Refusal Store(unsigned tile, uint64_t base, uint64_t stride);
  /// TDPB{SS,SU,US,UU}D: adds sums of four products in INT32, where the bytes of A and B are signed or
  /// unsigned.
  Refusal DotInt8(DotTiles tiles, bool a_signed, bool b_signed);
  /// TDPBF16PS.
  Refusal DotBf16(DotTiles tiles);

 private:
  Refusal CheckTile(unsigned tile) const;
  Refusal CheckDot(DotTiles tiles) const;
  void FinishWrite(unsigned tile);

  uint8_t palette_ = 0;  // 0 if not configured
  uint8_t start_row_ = 0;
  uint16_t row_bytes_[kTiles] = {};
  uint8_t rows_[kTiles] = {};
  alignas(64) uint8_t data_[kTiles][kTileRowsMax][kTileRowBytesMax] = {};
};

}  // namespace numoe::amx_emulator
