// Encodings that the GNU assembler writes, and similar ones that hardware refuses.
#include "tests/amx_emulator/instruction.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace numoe::amx_emulator {
namespace {

constexpr uint64_t kFsBase = 0x7000'0000'0000;

// Register i (rax rcx rdx rbx rsp rbp rsi rdi r8 ...) holds 0x1'0000'1000 * (i + 1): distinct, and above 32
// bits.
constexpr uint64_t Register(int i) { return 0x1'0000'1000ull * static_cast<uint64_t>(i + 1); }

Registers TestRegisters() {
  Registers r;
  for (int i = 0; i < 16; ++i) r.general[i] = Register(i);
  r.fs_base = kFsBase;
  return r;
}

using Code = std::vector<uint8_t>;

Instruction DecodeCode(Code code) {
  code.resize(code.size() + 16, 0x90);  // what follows in memory
  return Decode(code.data(), TestRegisters());
}

struct MemoryCase {
  const char* text;
  Code code;
  Op op;
  unsigned tile;
  uint64_t address;
  uint64_t stride;
};

TEST(InstructionTest, MemoryOperands) {
  const MemoryCase cases[] = {
      {"ldtilecfg (%rax)", {0xc4, 0xe2, 0x78, 0x49, 0x00}, Op::kLdTileCfg, 0, Register(0), 0},
      {"ldtilecfg 0x12345678(%r12)",
       {0xc4, 0xc2, 0x78, 0x49, 0x84, 0x24, 0x78, 0x56, 0x34, 0x12},
       Op::kLdTileCfg,
       0,
       Register(12) + 0x12345678,
       0},
      {"ldtilecfg 0x40(%rsp,%r9,2)",
       {0xc4, 0xa2, 0x78, 0x49, 0x44, 0x4c, 0x40},
       Op::kLdTileCfg,
       0,
       Register(4) + 2 * Register(9) + 0x40,
       0},
      {"ldtilecfg %fs:0x40(%rcx)",
       {0x64, 0xc4, 0xe2, 0x78, 0x49, 0x41, 0x40},
       Op::kLdTileCfg,
       0,
       kFsBase + Register(1) + 0x40,
       0},
      {"ldtilecfg (%eax)",
       {0x67, 0xc4, 0xe2, 0x78, 0x49, 0x00},
       Op::kLdTileCfg,
       0,
       static_cast<uint32_t>(Register(0)),
       0},
      {"sttilecfg -8(%rbp)", {0xc4, 0xe2, 0x79, 0x49, 0x45, 0xf8}, Op::kStTileCfg, 0, Register(5) - 8, 0},
      {"tileloadd (%rdi,%rsi,1),%tmm3",
       {0xc4, 0xe2, 0x7b, 0x4b, 0x1c, 0x37},
       Op::kTileLoad,
       3,
       Register(7),
       Register(6)},
      {"tileloadd 0x10(%r13,%r12,4),%tmm7",
       {0xc4, 0x82, 0x7b, 0x4b, 0x7c, 0xa5, 0x10},
       Op::kTileLoad,
       7,
       Register(13) + 0x10,
       4 * Register(12)},
      {"tileloadd (%rdi),%tmm0", {0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0x27}, Op::kTileLoad, 0, Register(7), 0},
      {"tileloadd 0x20(,%rdx,8),%tmm0",
       {0xc4, 0xe2, 0x7b, 0x4b, 0x04, 0xd5, 0x20, 0x00, 0x00, 0x00},
       Op::kTileLoad,
       0,
       0x20,
       8 * Register(2)},
      {"tileloaddt1 (%r8,%r15,1),%tmm1",
       {0xc4, 0x82, 0x79, 0x4b, 0x0c, 0x38},
       Op::kTileLoadT1,
       1,
       Register(8),
       Register(15)},
      {"tilestored %tmm2,0x400(%rbx,%rcx,1)",
       {0xc4, 0xe2, 0x7a, 0x4b, 0x94, 0x0b, 0x00, 0x04, 0x00, 0x00},
       Op::kTileStore,
       2,
       Register(3) + 0x400,
       Register(1)},
  };
  for (const MemoryCase& c : cases) {
    const Instruction i = DecodeCode(c.code);
    EXPECT_EQ(i.op, c.op) << c.text;
    EXPECT_EQ(i.length, static_cast<int>(c.code.size())) << c.text;
    EXPECT_EQ(i.tile, c.tile) << c.text;
    EXPECT_EQ(i.address, c.address) << c.text;
    EXPECT_EQ(i.stride, c.stride) << c.text;
    EXPECT_EQ(std::string(c.text).rfind(OpName(i.op), 0), 0u) << c.text;
  }
}

TEST(InstructionTest, RipRelativeCountsFromTheNextInstruction) {
  const uint8_t code[] = {0xc4, 0xe2, 0x78, 0x49, 0x05, 0x00, 0x01, 0x00, 0x00};  // ldtilecfg 0x100(%rip)
  const Instruction i = Decode(code, TestRegisters());
  EXPECT_EQ(i.op, Op::kLdTileCfg);
  EXPECT_EQ(i.length, 9);
  EXPECT_EQ(i.address, reinterpret_cast<uint64_t>(code) + 9 + 0x100);
}

struct RegisterCase {
  const char* text;
  Code code;
  Op op;
  unsigned c, a, b;
};

TEST(InstructionTest, RegisterOperands) {
  const RegisterCase cases[] = {
      {"tdpbssd %tmm2,%tmm1,%tmm0", {0xc4, 0xe2, 0x6b, 0x5e, 0xc1}, Op::kDotSignedSigned, 0, 1, 2},
      {"tdpbsud %tmm5,%tmm4,%tmm3", {0xc4, 0xe2, 0x52, 0x5e, 0xdc}, Op::kDotSignedUnsigned, 3, 4, 5},
      {"tdpbusd %tmm7,%tmm6,%tmm5", {0xc4, 0xe2, 0x41, 0x5e, 0xee}, Op::kDotUnsignedSigned, 5, 6, 7},
      {"tdpbuud %tmm0,%tmm1,%tmm2", {0xc4, 0xe2, 0x78, 0x5e, 0xd1}, Op::kDotUnsignedUnsigned, 2, 1, 0},
      {"tdpbf16ps %tmm3,%tmm2,%tmm1", {0xc4, 0xe2, 0x62, 0x5c, 0xca}, Op::kDotBf16, 1, 2, 3},
      {"tilezero %tmm5", {0xc4, 0xe2, 0x7b, 0x49, 0xe8}, Op::kTileZero, 5, 0, 0},
      {"tilerelease", {0xc4, 0xe2, 0x78, 0x49, 0xc0}, Op::kTileRelease, 0, 0, 0},
  };
  for (const RegisterCase& c : cases) {
    const Instruction i = DecodeCode(c.code);
    EXPECT_EQ(i.op, c.op) << c.text;
    EXPECT_EQ(i.length, 5) << c.text;
    EXPECT_EQ(i.tile, c.c) << c.text;
    EXPECT_EQ(i.source_a, c.a) << c.text;
    EXPECT_EQ(i.source_b, c.b) << c.text;
    EXPECT_EQ(std::string(c.text).rfind(OpName(i.op), 0), 0u) << c.text;
  }
}

TEST(InstructionTest, OtherInstructionsAreNotDecoded) {
  const std::pair<const char*, Code> cases[] = {
      {"ud2", {0x0f, 0x0b}},
      {"vpshufb", {0xc4, 0xe2, 0x69, 0x00, 0xd9}},
      {"operand-size prefix before VEX", {0x66, 0xc4, 0xe2, 0x78, 0x49, 0x00}},
      {"W = 1", {0xc4, 0xe2, 0xf8, 0x49, 0x00}},
      {"L = 1", {0xc4, 0xe2, 0x7c, 0x49, 0x00}},
      {"map 0F3A", {0xc4, 0xe3, 0x78, 0x49, 0x00}},
      {"ldtilecfg with a register in vvvv", {0xc4, 0xe2, 0x70, 0x49, 0x00}},
      {"ldtilecfg with opcode extension 1", {0xc4, 0xe2, 0x78, 0x49, 0x08}},
      {"tilerelease with another register", {0xc4, 0xe2, 0x78, 0x49, 0xc1}},
      {"tileloadd without SIB", {0xc4, 0xe2, 0x7b, 0x4b, 0x07}},
      {"tileloadd without a prefix in VEX", {0xc4, 0xe2, 0x78, 0x4b, 0x1c, 0x37}},
      {"tdpbssd with a memory operand", {0xc4, 0xe2, 0x6b, 0x5e, 0x01}},
      {"tdpfp16ps, which is not emulated", {0xc4, 0xe2, 0x6b, 0x5c, 0xc1}},
  };
  for (const auto& [text, code] : cases) EXPECT_EQ(DecodeCode(code).op, Op::kNone) << text;
}

}  // namespace
}  // namespace numoe::amx_emulator
