// Decodes AMX instructions: from machine code and general registers to an operation with its operands.
//
// AMX instructions are VEX-encoded in map 0F38 with W = L = 0 (Intel SDM vol. 2). Other instructions, and
// encodings that the reference calls #UD, decode to kNone. A pure function: it reads only the code bytes,
// never the operands' memory.
#pragma once

#include <cstdint>

namespace numoe::amx_emulator {

enum class Op : uint8_t {
  kNone,
  kLdTileCfg,
  kStTileCfg,
  kTileRelease,
  kTileZero,
  kTileLoad,
  kTileLoadT1,
  kTileStore,
  kDotSignedSigned,
  kDotSignedUnsigned,
  kDotUnsignedSigned,
  kDotUnsignedUnsigned,
  kDotBf16,
};
inline constexpr int kOps = static_cast<int>(Op::kDotBf16) + 1;
/// The mnemonic ("tileloadd"), for messages.
const char* OpName(Op op);

/// The registers from which an operand's address is computed.
struct Registers {
  uint64_t general[16];  // in encoding order: rax rcx rdx rbx rsp rbp rsi rdi r8 ... r15
  uint64_t fs_base;
};

struct Instruction {
  Op op = Op::kNone;
  int length = 0;         // bytes
  unsigned tile = 0;      // destination, or the tile that is stored
  unsigned source_a = 0;  // dot products
  unsigned source_b = 0;
  uint64_t address = 0;  // memory operand: without the index register for tile loads and stores
  uint64_t stride = 0;   // tile loads and stores: the scaled index register
};

Instruction Decode(const uint8_t* code, const Registers& registers);

}  // namespace numoe::amx_emulator
