// Compares the device's experts with double precision, stage by stage from routing to residual: few rows per
// expert and many, experts that no token selects, padding rows, every format, every schedule.
#include "coordinator/execution/device/cuda/kernels/experts.h"

#include <fmt/format.h>

#include <random>
#include <vector>

#include "coordinator/execution/device/cuda/kernels/permute.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/device/cuda/dense_reference.h"

namespace numoe::execution::cuda {
namespace {

constexpr int kExperts = 6;
constexpr int32_t kSlots[kExperts] = {2, -1, 0, 3, -1, 1};  // expert 3 (slot 3) is never selected
constexpr int kSlotCount = 4;

struct Layer {
  Layer(DeviceFormat format, int hidden, int width, std::mt19937& random)
      : slot{format, format, hidden, width},
        up(format, width, hidden, true, kSlotCount, random),
        down(format, hidden, width, false, kSlotCount, random),
        device(kSlotCount * slot.bytes()) {
    std::vector<std::byte> bytes;
    for (size_t i = 0; i < kSlotCount; ++i) {
      const auto part = [&](const PackedOnDevice& m) {
        const auto begin = m.bytes.begin() + static_cast<ptrdiff_t>(i * m.each());
        bytes.insert(bytes.end(), begin, begin + static_cast<ptrdiff_t>(m.each()));
      };
      part(up);
      part(down);
    }
    device.Upload(bytes);
  }
  ExpertSlot slot;
  PackedOnDevice up, down;
  DeviceBuffer<std::byte> device;
};

// Every token that is not padding selects expert 0 and a second one.
std::vector<int32_t> Routes(int rows) {
  std::vector<int32_t> ids;
  for (int row = 0; row < rows; ++row) {
    const bool padding = row % 5 == 3;
    const int32_t second[] = {1, 2, 4, 5};
    ids.push_back(padding ? -1 : 0);
    ids.push_back(padding ? -1 : second[row % 4]);
  }
  return ids;
}

void ExpectExpertRow(const DeviceMatrix& m, const std::vector<float>& weights, const Bf16* x,
                     const GemmPlan& plan, const Bf16* got, const char* what, int pair) {
  const std::vector<Bounded> expected = Products(m, weights, x, plan);
  for (size_t i = 0; i < expected.size(); ++i) {
    const Bounded e = RoundedToBf16(expected[i]);
    ASSERT_NEAR(DecodeBf16(got[i].bits), e.value, e.error) << what << ": pair " << pair << " output " << i;
  }
}

void CheckExperts(DeviceFormat format, int rows, int hidden, int width, int multiprocessors) {
  std::mt19937 random(static_cast<unsigned>(rows));
  const int k = 2, pairs = rows * k;
  const Layer layer(format, hidden, width, random);
  const std::vector<int32_t> ids = Routes(rows);
  const std::vector<Bf16> x = RandomBf16(static_cast<size_t>(rows * hidden), random);
  const DeviceBuffer<int32_t> ids_device(ids), slots(std::vector<int32_t>(kSlots, kSlots + kExperts));
  const DeviceBuffer<Bf16> x_device(x);
  const ExpertsPlan plan = PlanExperts({.slot = layer.slot,
                                        .rows = rows,
                                        .k = k,
                                        .experts = kExperts,
                                        .slots = kSlotCount,
                                        .multiprocessors = multiprocessors});
  const auto n = static_cast<size_t>(pairs);
  RunUnderAllSchedules([&] {
    DeviceBuffer<int32_t> counts(PermuteScratchInts(pairs, kSlotCount)), tokens(n), places(n), left(n),
        work_count(1);
    DeviceBuffer<GemmWork> work(static_cast<size_t>(plan.work_max));
    DeviceBuffer<Bf16> activations(n * static_cast<size_t>(width)), outputs(n * static_cast<size_t>(hidden));
    DeviceBuffer<float> partials(plan.partial_bytes() / sizeof(float));
    DeviceBuffer<uint32_t> arrivals(std::vector<uint32_t>(static_cast<size_t>(plan.arrivals()), 0));
    LaunchPermute({ids_device.data(), slots.data(), rows, k, kSlotCount, plan.piece_rows, counts.data(),
                   tokens.data(), places.data(), left.data(), work.data(), work_count.data()},
                  nullptr);
    LaunchExperts(
        {layer.slot, layer.device.data(), x_device.data(), tokens.data(), work.data(), work_count.data(),
         plan, activations.data(), outputs.data(), partials.data(), arrivals.data()},
        nullptr);
    const std::vector<int32_t> at = places.Download();
    const std::vector<Bf16> middle = activations.Download(), got = outputs.Download();
    std::vector<float> up[kSlotCount], down[kSlotCount];
    for (int s = 0; s < kSlotCount; ++s) up[s] = layer.up.Values(s), down[s] = layer.down.Values(s);
    for (int p = 0; p < pairs; ++p) {
      const int id = ids[static_cast<size_t>(p)], place = at[static_cast<size_t>(p)];
      ASSERT_EQ(place >= 0, id >= 0 && kSlots[id] >= 0);
      if (place < 0) continue;
      const Bf16* activation = &middle[static_cast<size_t>(place * width)];
      ExpectExpertRow(layer.up.matrix, up[kSlots[id]], &x[static_cast<size_t>(p / k * hidden)], plan.up,
                      activation, "gate and up", p);
      ExpectExpertRow(layer.down.matrix, down[kSlots[id]], activation, plan.down,
                      &got[static_cast<size_t>(place * hidden)], "down", p);
    }
    for (const uint32_t value : arrivals.Download()) ASSERT_EQ(value, 0u);
  });
}

constexpr DeviceFormat kExpertsFormats[] = {DeviceFormat::kBf16, DeviceFormat::kFp8, DeviceFormat::kInt4};

TEST(ExpertsTest, FewRowsAnExpert) {
  for (const DeviceFormat format : kExpertsFormats) {
    CheckExperts(format, 1, 160, 96, 1);
    CheckExperts(format, 7, 160, 64, 1);
  }
  CheckExperts(DeviceFormat::kBf16, 4, 104, 72, 1);
  CheckExperts(DeviceFormat::kFp8, 4, 104, 72, 1);
}

TEST(ExpertsTest, FewRowsWithSplitInputs) {
  for (const DeviceFormat format : kExpertsFormats) CheckExperts(format, 3, 576, 544, 132);
}

// More rows are routed to expert 0 than a piece of work holds.
TEST(ExpertsTest, ManyRowsAnExpert) {
  for (const DeviceFormat format : kExpertsFormats) CheckExperts(format, 190, 64, 32, 1);
}

}  // namespace
}  // namespace numoe::execution::cuda
