// Which tenants have a slot kept, and which sequence gives up its slot, with a clock that the test advances.
#include "coordinator/engine/scheduler/fair_slots.h"

#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr FairSlots::Time kStart = FairSlots::Time() + std::chrono::hours(1);

SequencePtr Of(int tenant, FairSlots::Time arrived = kStart) {
  auto s = std::make_unique<Sequence>(EngineRequest{.prompt = {1}, .tenant = {.id = tenant}},
                                      SequenceLimits{.tokens_max = 2, .vocab = 2});
  s->arrived = arrived;
  return s;
}

std::vector<SequencePtr> RunningOf(std::initializer_list<int> tenants) {
  std::vector<SequencePtr> running;
  for (const int tenant : tenants) running.push_back(Of(tenant));
  return running;
}

TEST(FairSlotsTest, ASlotIsKeptForAShortTimeForATenantWithoutSequences) {
  FairSlots slots(8);
  const TenantLines no_lines;
  EXPECT_EQ(slots.Kept({}, no_lines, kStart), 0);
  slots.Ended(1, kStart);
  EXPECT_EQ(slots.Kept(RunningOf({2}), no_lines, kStart + seconds(1)), 1);
  EXPECT_EQ(slots.Kept(RunningOf({2, 1}), no_lines, kStart + seconds(1)), 0) << "it runs again";
  EXPECT_EQ(slots.Kept(RunningOf({2}), {{1, {.requests = 1}}}, kStart + seconds(1)), 0) << "it waits again";
  const FairSlots::Time last = kStart + seconds(limits::kFairSlotSeconds);
  EXPECT_EQ(slots.Kept(RunningOf({2}), no_lines, last), 1);
  EXPECT_EQ(slots.Kept(RunningOf({2}), no_lines, last + milliseconds(1)), 0);
  EXPECT_EQ(slots.Kept(RunningOf({2}), no_lines, last), 0) << "it is forgotten";
}

TEST(FairSlotsTest, FewSlotsAreKept) {
  for (const auto& [sequences_max, kept] : std::map<int, int>{{1, 0}, {2, 1}, {15, 1}, {16, 2}, {800, 3}}) {
    FairSlots slots(sequences_max);
    for (const int tenant : {1, 2, 3}) slots.Ended(tenant, kStart);
    EXPECT_EQ(slots.Kept({}, {}, kStart), kept) << sequences_max;
  }
}

TEST(FairSlotsTest, TheLastSequenceGivesUpItsSlotWhenATenantHasWaitedTooLong) {
  const FairSlots slots(3);
  const FairSlots::Time patient = kStart + seconds(limits::kFairWaitSeconds);
  const FairSlots::Time late = patient + milliseconds(1);
  FairQueue waiting;
  const std::vector<SequencePtr> running = RunningOf({1, 2, 2});
  EXPECT_EQ(slots.ToGiveUp(running, waiting, late), nullptr) << "no sequence waits";
  waiting.Add(Of(1));
  EXPECT_EQ(slots.ToGiveUp(running, waiting, late), nullptr) << "the waiting tenant has a running sequence";
  waiting.Add(Of(3));
  EXPECT_EQ(slots.ToGiveUp(running, waiting, patient), nullptr);
  EXPECT_EQ(slots.ToGiveUp(running, waiting, late), running.back().get());
  EXPECT_EQ(slots.ToGiveUp(RunningOf({2, 2, 1}), waiting, late), nullptr)
      << "the last sequence is its tenant's only one";
  EXPECT_EQ(slots.ToGiveUp(RunningOf({2, 2}), waiting, late), nullptr) << "a slot is free";
}

}  // namespace
}  // namespace numoe::engine
