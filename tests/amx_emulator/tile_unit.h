// The state and arithmetic of Intel AMX in software: eight tiles, their configuration, the dot products.
//
// Bit for bit what the instruction set reference prescribes (Intel SDM vol. 2, "Intel AMX Instruction Set
// Reference"): INT8 sums wrap; BF16 sums run in even and odd lanes by fused multiply-add from +0, then even +
// odd, then + C, with denormals taken as zero, results flushed, rounding to nearest, whatever MXCSR says. An
// operation that real hardware would refuse returns why and changes nothing. Owned by one thread; touches no
// library code that could allocate, because it runs inside a signal handler.
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
  /// A reason why the hardware would fault, or nullptr.
  using Refusal = const char*;

  /// LDTILECFG and STTILECFG; `config` is 64 bytes. A refused configuration is #GP, every other refusal #UD.
  Refusal LoadConfig(const uint8_t* config);
  void StoreConfig(uint8_t* config) const;
  /// TILERELEASE: back to the state before any configuration.
  void Release();

  Refusal Zero(unsigned tile);
  /// TILELOADD: row r of the tile from address base + r * stride, up to the tile's configured size; the rest
  /// is zero.
  Refusal Load(unsigned tile, uint64_t base, uint64_t stride);
  Refusal Store(unsigned tile, uint64_t base, uint64_t stride);
  /// TDPB{SS,SU,US,UU}D: bytes of A and B signed or not, sums of four products to INT32.
  Refusal DotInt8(DotTiles tiles, bool a_signed, bool b_signed);
  /// TDPBF16PS.
  Refusal DotBf16(DotTiles tiles);

 private:
  Refusal CheckTile(unsigned tile) const;
  Refusal CheckDot(DotTiles tiles) const;
  void FinishWrite(unsigned tile);

  uint8_t palette_ = 0;  // 0: not configured
  uint8_t start_row_ = 0;
  uint16_t row_bytes_[kTiles] = {};
  uint8_t rows_[kTiles] = {};
  alignas(64) uint8_t data_[kTiles][kTileRowsMax][kTileRowBytesMax] = {};
};

}  // namespace numoe::amx_emulator
