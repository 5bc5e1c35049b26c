// Loading piece by piece gives the same bytes on the device as packing in one piece, however small the
// buffers are. The simulated runtime copies only when it is waited for, so a buffer that is refilled too
// early gives wrong bytes.
#include "coordinator/execution/device/cuda/weight_store.h"

#include <cstring>
#include <functional>
#include <random>

#include "common/formats/bf16.h"
#include "gtest/gtest.h"
#include "tests/cuda_host/simulated_runtime.h"
#include "tests/unit/common/kernels/random_matrix.h"

namespace numoe::execution::cuda {
namespace {

constexpr WeightFormat kSources[] = {WeightFormat::kRawInt4, WeightFormat::kFp8, WeightFormat::kBf16,
                                     WeightFormat::kQ4K};

std::vector<std::byte> Packed(const DevicePack& pack) {
  std::vector<std::byte> bytes(pack.bytes());
  PackDevice(pack, absl::MakeSpan(bytes));
  return bytes;
}

// The simulated device's memory can be read directly, because it is host memory.
void ExpectBytes(const void* device, const std::vector<std::byte>& expected, const char* what) {
  ASSERT_EQ(std::memcmp(device, expected.data(), expected.size()), 0) << what;
}

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// Loads weights of every kind, and returns a check of the loaded bytes.
using Expectation = std::function<void()>;
std::vector<Expectation> LoadMany(WeightStore& store, std::mt19937& random, std::vector<Stored>& sources) {
  std::vector<Expectation> expected;
  const auto expect = [&](const void* device, std::vector<std::byte> bytes, const char* what) {
    expected.push_back([device, bytes = std::move(bytes), what] { ExpectBytes(device, bytes, what); });
  };
  for (const WeightFormat format : kSources) {
    const Stored& one = sources.emplace_back(RandomStored(format, 200, 512, random));
    const DeviceMatrix matrix = *store.Load(one.view);
    expect(matrix.data, Packed({.format = matrix.format, .first = one.view}), "matrix");
    sources.push_back(RandomStored(format, 152, 512, random));
    sources.push_back(RandomStored(format, 152, 512, random));
    const MatrixView gate = sources[sources.size() - 2].view, up = sources.back().view;
    const DeviceMatrix gated = *store.LoadGated(gate, up);
    expect(gated.data, Packed({.format = gated.format, .first = gate, .second = up}), "gated pair");
    std::vector<float> floats(77);
    for (float& value : floats) value = static_cast<float>(random());
    expect(store.LoadFloats(floats), BytesOf(floats), "vector");
    const Stored& table = sources.emplace_back(RandomStored(format, 50, 512, random));
    std::vector<float> decoded(50 * 512);
    DecodeMatrix(table.view, 0, 50, 0, 512, absl::MakeSpan(decoded));
    std::vector<uint16_t> bits;
    for (const float value : decoded) bits.push_back(EncodeBf16(value));
    expect(*store.LoadRows(table.view), BytesOf(bits), "embedding");
  }
  std::vector<float> heads(3 * 48 * 80);
  for (float& value : heads) value = static_cast<float>(random() % 1000) - 500;
  const DeviceHeads stored = *store.LoadHeads(heads, 3, 48, 80);
  for (size_t h = 0; h < 3; ++h) {
    const absl::Span<const float> head = absl::MakeConstSpan(heads).subspan(h * 48 * 80, 48 * 80);
    expect(stored.first.data + h * stored.head_bytes, Packed({.first = ValuesView(head, 48, 80)}), "head");
  }
  return expected;
}

class WeightStoreTest : public ::testing::TestWithParam<size_t> {};

TEST_P(WeightStoreTest, TheLoadedBytesAreThoseOfPackingInOnePiece) {
  const auto runtime = NewSimulatedRuntime();
  std::mt19937 random(3);
  std::vector<Stored> sources;
  sources.reserve(64);  // their views stay where they are
  WeightStore store(runtime.get(), GetParam());
  std::vector<Expectation> expected = LoadMany(store, random, sources);
  ASSERT_TRUE(store.Finish().ok());
  for (const Expectation& found : expected) found();
  // A store may load more after Finish.
  expected = LoadMany(store, random, sources);
  ASSERT_TRUE(store.Finish().ok());
  for (const Expectation& found : expected) found();
}

TEST_P(WeightStoreTest, CountsTheSameWithoutADevice) {
  const auto runtime = NewSimulatedRuntime();
  std::mt19937 random(3), again(3);
  std::vector<Stored> sources;
  sources.reserve(64);
  WeightStore store(runtime.get(), GetParam()), counting(nullptr, GetParam());
  LoadMany(store, random, sources);
  for (const WeightFormat format : kSources) {
    ASSERT_TRUE(counting.Load(RandomStored(format, 200, 512, again).view).ok());
    const Stored gate = RandomStored(format, 152, 512, again), up = RandomStored(format, 152, 512, again);
    ASSERT_TRUE(counting.LoadGated(gate.view, up.view).ok());
    counting.LoadFloats(std::vector<float>(77));
    ASSERT_TRUE(counting.LoadRows(RandomStored(format, 50, 512, again).view).ok());
  }
  ASSERT_TRUE(counting.LoadHeads(std::vector<float>(3 * 48 * 80), 3, 48, 80).ok());
  ASSERT_TRUE(counting.Finish().ok());
  EXPECT_EQ(counting.bytes(), store.bytes());
}

// Buffers for one panel, for some panels, and for more than a whole matrix.
INSTANTIATE_TEST_SUITE_P(Buffers, WeightStoreTest, ::testing::Values(1, 100'000, 1 << 20));

TEST(WeightStoreLimitsTest, TwoBuffersArePinnedHoweverMuchIsLoaded) {
  constexpr size_t kBuffer = 64 << 10;
  const auto runtime = NewSimulatedRuntime({.pinned_bytes = 2 * kBuffer});
  std::mt19937 random(5);
  WeightStore store(runtime.get(), kBuffer);
  const Stored stored = RandomStored(WeightFormat::kBf16, 512, 512, random);  // half a MiB
  for (int i = 0; i < 3; ++i) {
    const auto loaded = store.Load(stored.view);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
  }
  ASSERT_TRUE(store.Finish().ok());
  EXPECT_TRUE(runtime->AllocateHost(2 * kBuffer).ok()) << "the buffers must be released";
}

TEST(WeightStoreLimitsTest, AFullDeviceAndTooLittlePinnedMemoryAreErrors) {
  std::mt19937 random(6);
  const Stored stored = RandomStored(WeightFormat::kBf16, 512, 512, random);
  {
    const auto runtime = NewSimulatedRuntime({.memory_bytes = 100'000});
    WeightStore store(runtime.get());
    EXPECT_TRUE(absl::IsResourceExhausted(store.Load(stored.view).status()));
    EXPECT_EQ(store.LoadFloats(std::vector<float>(100'000)), nullptr);
    EXPECT_TRUE(absl::IsResourceExhausted(store.Finish())) << "a vector's error is kept";
  }
  const auto runtime = NewSimulatedRuntime({.pinned_bytes = 1000});
  WeightStore store(runtime.get());
  EXPECT_TRUE(absl::IsResourceExhausted(store.Load(stored.view).status()));
}

}  // namespace
}  // namespace numoe::execution::cuda
