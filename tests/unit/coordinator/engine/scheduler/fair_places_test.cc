// Who has a place kept, and who gives one up, on a clock that the test moves.
#include "coordinator/engine/scheduler/fair_places.h"

#include "coordinator/engine/scheduler/scheduler_limits.h"
#include "gtest/gtest.h"

namespace numoe::engine {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr FairPlaces::Time kStart = FairPlaces::Time() + std::chrono::hours(1);

SequencePtr Of(int tenant, FairPlaces::Time arrived = kStart) {
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

TEST(FairPlacesTest, APlaceIsKeptForAWhileForWhoHasNothingHere) {
  FairPlaces places(8);
  const TenantLines nobody;
  EXPECT_EQ(places.Kept({}, nobody, kStart), 0);
  places.Ended(1, kStart);
  EXPECT_EQ(places.Kept(RunningOf({2}), nobody, kStart + seconds(1)), 1);
  EXPECT_EQ(places.Kept(RunningOf({2, 1}), nobody, kStart + seconds(1)), 0) << "it runs again";
  EXPECT_EQ(places.Kept(RunningOf({2}), {{1, {.requests = 1}}}, kStart + seconds(1)), 0) << "it waits again";
  const FairPlaces::Time last = kStart + seconds(limits::kFairPlaceSeconds);
  EXPECT_EQ(places.Kept(RunningOf({2}), nobody, last), 1);
  EXPECT_EQ(places.Kept(RunningOf({2}), nobody, last + milliseconds(1)), 0);
  EXPECT_EQ(places.Kept(RunningOf({2}), nobody, last), 0) << "it is forgotten";
}

TEST(FairPlacesTest, FewPlacesAreKept) {
  for (const auto& [sequences_max, kept] : std::map<int, int>{{1, 0}, {2, 1}, {15, 1}, {16, 2}, {800, 3}}) {
    FairPlaces places(sequences_max);
    for (const int tenant : {1, 2, 3}) places.Ended(tenant, kStart);
    EXPECT_EQ(places.Kept({}, {}, kStart), kept) << sequences_max;
  }
}

TEST(FairPlacesTest, TheLastGivesItsPlaceUpOnceSomebodyHasWaitedForLong) {
  const FairPlaces places(3);
  const FairPlaces::Time patient = kStart + seconds(limits::kFairWaitSeconds);
  const FairPlaces::Time late = patient + milliseconds(1);
  FairQueue waiting;
  const std::vector<SequencePtr> running = RunningOf({1, 2, 2});
  EXPECT_EQ(places.ToGiveUp(running, waiting, late), nullptr) << "nobody waits";
  waiting.Add(Of(1));
  EXPECT_EQ(places.ToGiveUp(running, waiting, late), nullptr) << "who waits runs as well";
  waiting.Add(Of(3));
  EXPECT_EQ(places.ToGiveUp(running, waiting, patient), nullptr);
  EXPECT_EQ(places.ToGiveUp(running, waiting, late), running.back().get());
  EXPECT_EQ(places.ToGiveUp(RunningOf({2, 2, 1}), waiting, late), nullptr) << "the last has no other";
  EXPECT_EQ(places.ToGiveUp(RunningOf({2, 2}), waiting, late), nullptr) << "a place is free";
}

}  // namespace
}  // namespace numoe::engine
