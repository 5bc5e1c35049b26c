// Single steps through code with known instructions, including tile instructions.
#include "tests/amx_emulator/instruction_counter.h"

#include <cstdint>

#include "gtest/gtest.h"
#include "tests/amx_emulator/amx_emulator.h"

namespace numoe::amx_emulator {
namespace {

uint64_t CountedBy(absl::FunctionRef<void()> code, uint64_t InstructionCounts::*member) {
  return CountInstructions(code).*member - CountInstructions([] {}).*member;
}

TEST(InstructionCounterTest, EveryInstructionOnce) {
  const auto loop = [] {
    uint64_t rounds = 100;
    asm volatile("1: nop\nnop\ndec %0\njnz 1b" : "+r"(rounds)::"cc");
  };
  const uint64_t counted = CountedBy(loop, &InstructionCounts::all);
  EXPECT_GE(counted, 400u);
  EXPECT_LE(counted, 410u) << "the loop and a few instructions around it";
  EXPECT_EQ(CountedBy(loop, &InstructionCounts::vector), 0u);
}

TEST(InstructionCounterTest, ArithmeticIsVectorAndMovesAreNot) {
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "needs AVX2";
  alignas(32) float memory[8] = {};
  const auto code = [&] {
    asm volatile(
        "vmovups (%0), %%ymm0\nvbroadcastss (%0), %%ymm1\nvaddps %%ymm0, %%ymm1, %%ymm2\n"
        "vpermd %%ymm0, %%ymm1, %%ymm2\nvcvtdq2ps %%ymm0, %%ymm0\nvmovups %%ymm0, (%0)\nvzeroupper" ::"r"(
            memory)
        : "xmm0", "xmm1", "xmm2", "memory");
  };
  EXPECT_EQ(CountedBy(code, &InstructionCounts::vector), 3u);
}

TEST(InstructionCounterTest, BitsOfMachineCode) {
  const auto is_vector = [](std::initializer_list<uint8_t> bytes) {
    uint8_t code[16] = {};
    std::copy(bytes.begin(), bytes.end(), code);
    return IsVectorOperation(code);
  };
  EXPECT_FALSE(is_vector({0x90}));                                // nop
  EXPECT_TRUE(is_vector({0x62, 0xf2, 0x67, 0x48, 0x72, 0xc2}));   // vcvtne2ps2bf16 zmm0, zmm3, zmm2
  EXPECT_TRUE(is_vector({0x62, 0xf2, 0x75, 0x48, 0x75, 0xc2}));   // vpermi2b zmm0, zmm1, zmm2
  EXPECT_FALSE(is_vector({0x62, 0xf1, 0xfd, 0x48, 0x6f, 0x00}));  // vmovdqa64 zmm0, [rax]
  EXPECT_FALSE(is_vector({0x62, 0xf2, 0x7d, 0x48, 0x7c, 0xc0}));  // vpbroadcastd zmm0, eax
  EXPECT_FALSE(is_vector({0xc4, 0xe1, 0xfb, 0x92, 0xc8}));        // kmovq k1, rax
  EXPECT_FALSE(is_vector({0xc4, 0xe2, 0xf8, 0xf2, 0xc1}));        // andn rax, rax, rcx
  EXPECT_FALSE(is_vector({0xc4, 0xe3, 0xfb, 0xf0, 0xc1, 0x07}));  // rorx rax, rcx, 7
}

TEST(InstructionCounterTest, TileInstructionsRunAndHideNothing) {
  if (__builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "needs AVX2";
  const bool was_installed = Install();
  ASSERT_TRUE(was_installed);
  const InstructionCounts counts = CountInstructions([] {
    asm volatile(
        "tilerelease\ntilerelease\nvaddps %%ymm0, %%ymm1, %%ymm2\ntilerelease\nvaddps %%ymm0, %%ymm1, "
        "%%ymm2" ::
            : "xmm2");
  });
  EXPECT_EQ(counts.Tile(Op::kTileRelease), 3u);
  EXPECT_EQ(counts.vector, 2u) << "an instruction after an emulated one is counted, too";
  Uninstall();
}

}  // namespace
}  // namespace numoe::amx_emulator
