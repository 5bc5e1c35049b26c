// Real instructions that trap: operands, tiles of each thread, what survives, faults, and signals of other
// handlers.
#include "tests/amx_emulator/amx_emulator.h"

#include <cpuid.h>
#include <setjmp.h>
#include <signal.h>

#include <atomic>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

namespace numoe::amx_emulator {
namespace {

struct alignas(64) Config {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  Config& Tile(int tile, int tile_rows, int tile_row_bytes) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(tile_row_bytes);
    return *this;
  }
};

void LoadConfig(const Config& config) { asm volatile("ldtilecfg %0" ::"m"(config) : "memory"); }
void Release() { asm volatile("tilerelease"); }
void LoadTile0(const void* base, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(base), "r"(stride) : "memory");
}
void StoreTile0(void* base, int64_t stride) {
  asm volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(base), "r"(stride) : "memory");
}
void ZeroTile0() { asm volatile("tilezero %%tmm0" ::); }

// CPUID leaf 7, EDX bit 24 (AMX-TILE), and XCR0 bit 17: the system saves tiles (Intel SDM volume 1, 13.1
// and 18.1).
bool CpuHasTiles() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & 1u << 24) == 0) return false;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & 1u << 27) == 0) return false;  // XGETBV itself
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 1u << 17) != 0;
}

class AmxEmulatorTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (CpuHasTiles()) GTEST_SKIP() << "this CPU executes AMX instructions itself, so they do not trap";
    ASSERT_TRUE(Install());
    ResetCounts();
  }
  void TearDown() override {
    SetFaultHook(nullptr);
    Uninstall();
  }
};

TEST_F(AmxEmulatorTest, BlockedInt8ProductWithFourAccumulators) {
  constexpr int kInputs = 128, kSide = 32;
  std::mt19937 random(3);
  std::vector<int8_t> a(kSide * kInputs), b(kInputs * kSide), packed(kInputs * kSide);
  for (int8_t& v : a) v = static_cast<int8_t>(random());
  for (int8_t& v : b) v = static_cast<int8_t>(random());
  for (int k = 0; k < kInputs; ++k) {
    for (int n = 0; n < kSide; ++n) packed[k / 4 * kSide * 4 + n * 4 + k % 4] = b[k * kSide + n];
  }
  Config config;
  for (int i = 0; i < 8; ++i) config.Tile(i, 16, 64);
  LoadConfig(config);
  asm volatile("tilezero %tmm0; tilezero %tmm1; tilezero %tmm2; tilezero %tmm3");
  for (int k = 0; k < kInputs; k += 64) {
    const int8_t* a0 = a.data() + k;
    const int8_t* b0 = packed.data() + k / 4 * kSide * 4;
    asm volatile(
        "tileloadd (%0,%2,1), %%tmm4; tileloadd (%1,%2,1), %%tmm5; tileloaddt1 (%3,%5,1), %%tmm6;"
        "tileloadd (%4,%5,1), %%tmm7; tdpbssd %%tmm6, %%tmm4, %%tmm0; tdpbssd %%tmm7, %%tmm4, %%tmm1;"
        "tdpbssd %%tmm6, %%tmm5, %%tmm2; tdpbssd %%tmm7, %%tmm5, %%tmm3" ::"r"(a0),
        "r"(a0 + 16 * kInputs), "r"(int64_t{kInputs}), "r"(b0), "r"(b0 + 64), "r"(int64_t{kSide * 4})
        : "memory");
  }
  std::vector<int32_t> c(kSide * kSide);
  asm volatile(
      "tilestored %%tmm0, (%0,%4,1); tilestored %%tmm1, (%1,%4,1); tilestored %%tmm2, (%2,%4,1);"
      "tilestored %%tmm3, (%3,%4,1)" ::"r"(c.data()),
      "r"(c.data() + 16), "r"(c.data() + 16 * kSide), "r"(c.data() + 16 * kSide + 16), "r"(int64_t{kSide * 4})
      : "memory");
  Release();
  for (int m = 0; m < kSide; ++m) {
    for (int n = 0; n < kSide; ++n) {
      int sum = 0;
      for (int k = 0; k < kInputs; ++k) sum += a[m * kInputs + k] * b[k * kSide + n];
      ASSERT_EQ(c[m * kSide + n], sum) << m << "," << n;
    }
  }
  EXPECT_EQ(Count(Op::kDotSignedSigned), 8u);
  EXPECT_EQ(Count(Op::kTileLoad), 6u);
  EXPECT_EQ(Count(Op::kTileLoadT1), 2u);
  EXPECT_EQ(Count(Op::kTileStore), 4u);
  EXPECT_EQ(Count(Op::kTileRelease), 1u);
  EXPECT_EQ(Count(Op::kDotBf16), 0u);
}

thread_local Config thread_config;

TEST_F(AmxEmulatorTest, ConfigurationInThreadLocalMemory) {
  thread_config.Tile(0, 3, 12);
  asm volatile("ldtilecfg %0" ::"m"(thread_config) : "memory");  // an fs-relative operand in most code models
  Config back;
  asm volatile("sttilecfg %0" : "=m"(back)::"memory");
  EXPECT_EQ(std::memcmp(&back, &thread_config, sizeof back), 0);
  Release();
  asm volatile("sttilecfg %0" : "=m"(back)::"memory");
  EXPECT_EQ(back.palette, 0);
}

TEST_F(AmxEmulatorTest, TilesBelongToTheirThread) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &wrong] {
      LoadConfig(Config().Tile(0, 1 + t, 64));
      uint8_t in[16 * 64], out[16 * 64];
      for (int round = 0; round < 200; ++round) {
        std::memset(in, t * 40 + round % 40, sizeof in);
        std::memset(out, 0xff, sizeof out);
        LoadTile0(in, 64);
        std::this_thread::yield();
        StoreTile0(out, 64);
        if (std::memcmp(in, out, static_cast<size_t>(64 * (1 + t))) != 0 || out[64 * (1 + t)] != 0xff)
          ++wrong;
      }
      Release();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST_F(AmxEmulatorTest, RegistersSurviveTheTrap) {
  LoadConfig(Config().Tile(0, 16, 64));
  uint64_t general = 0x0123456789abcdef;
  double vector = 3.25;
  uint64_t flags_kept = 0;
  asm volatile("stc; tilezero %%tmm0; setc %b2" : "+r"(general), "+x"(vector), "+q"(flags_kept)::"cc");
  EXPECT_EQ(general, 0x0123456789abcdefu);
  EXPECT_EQ(vector, 3.25);
  EXPECT_EQ(flags_kept & 0xff, 1u);
  Release();
}

sigjmp_buf jump;
Fault seen_fault;
Op seen_op;
const char* seen_reason;  // a literal, because a signal handler may not allocate

// Returns the fault of `code` as "op: reason"; the test fails if there is none.
template <typename F>
std::string FaultOf(Fault expected, const F& code) {
  SetFaultHook([](Fault fault, Op op, const char* reason) {
    seen_fault = fault;
    seen_op = op;
    seen_reason = reason;
    siglongjmp(jump, 1);
  });
  seen_op = Op::kNone;
  if (sigsetjmp(jump, 1) == 0) code();
  if (seen_op == Op::kNone) return "no fault";
  EXPECT_EQ(static_cast<int>(seen_fault), static_cast<int>(expected));
  return std::string(OpName(seen_op)) + ": " + seen_reason;
}

TEST_F(AmxEmulatorTest, FaultsReachTheHook) {
  Release();
  EXPECT_EQ(FaultOf(Fault::kInvalidOpcode, [] { ZeroTile0(); }), "tilezero: tiles are not configured");
  EXPECT_EQ(FaultOf(Fault::kGeneralProtection, [] { LoadConfig(Config().Tile(0, 17, 64)); }),
            "ldtilecfg: a tile has more than 16 rows");
  EXPECT_EQ(FaultOf(Fault::kInvalidOpcode,
                    [] {
                      LoadConfig(Config().Tile(0, 16, 64).Tile(1, 16, 64).Tile(2, 8, 64));
                      asm volatile("tdpbf16ps %tmm2, %tmm1, %tmm0");
                    }),
            "tdpbf16ps: first source's row bytes / 4 are not the second source's rows");
  EXPECT_EQ(Count(Op::kTileZero), 0u) << "a refused instruction does not count";
  Release();
}

TEST_F(AmxEmulatorTest, FaultEndsTheProcessWithoutAHook) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        Install();
        ZeroTile0();
      },
      ::testing::KilledBySignal(SIGILL), "tilezero #UD: tiles are not configured");
}

volatile sig_atomic_t others = 0;

TEST_F(AmxEmulatorTest, OtherIllegalInstructionsGoToThePreviousHandler) {
  Uninstall();
  struct sigaction before, mine = {};
  mine.sa_handler = [](int) {
    others = others + 1;
    siglongjmp(jump, 1);
  };
  ASSERT_EQ(sigaction(SIGILL, &mine, &before), 0);
  ASSERT_TRUE(Install());
  others = 0;
  if (sigsetjmp(jump, 1) == 0) asm volatile("ud2");
  EXPECT_EQ(others, 1);
  Release();  // AMX still works
  EXPECT_EQ(Count(Op::kTileRelease), 1u);
  Uninstall();
  sigaction(SIGILL, &before, nullptr);
}

}  // namespace
}  // namespace numoe::amx_emulator
