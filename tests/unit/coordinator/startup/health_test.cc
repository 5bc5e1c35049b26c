// What probes are told: health is about requests, liveness about the process alone.
#include "coordinator/startup/health.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::startup {
namespace {

using ::testing::HasSubstr;

constexpr double kDeadline = 300;
const double kCallDeadline = static_cast<double>(execution::LinkOptions().call_deadline_ms) / 1e3;

std::string Live(double turn_s, const execution::CallActivity& calls) {
  engine::EngineStats stats;
  stats.turn_s = turn_s;
  return Liveness(calls, stats, kDeadline).status;
}

TEST(LivenessTest, WaitingForWorkIsLife) { EXPECT_EQ(Live(0, {.seconds = 1e6}), "alive"); }

TEST(LivenessTest, TurnsAreProgress) {
  // A lost worker: no call for an hour, but turns of waiting for it.
  EXPECT_EQ(Live(0.3, {.seconds = 3600}), "alive");
}

TEST(LivenessTest, LayersOfALongStepAreProgress) {
  EXPECT_EQ(Live(3600, {.in_call = false, .seconds = kDeadline}), "alive");
  EXPECT_EQ(Live(3600, {.in_call = true, .seconds = 0}), "alive");
}

TEST(LivenessTest, AHungWorkerIsNotTheProcessesFault) {
  // The call's own deadline ends it; only a call that outlives even that shows a dead engine.
  EXPECT_EQ(Live(kDeadline + kCallDeadline, {.in_call = true, .seconds = kDeadline + kCallDeadline}),
            "alive");
  EXPECT_EQ(Live(3600, {.in_call = true, .seconds = kDeadline + kCallDeadline + 1}), "stuck");
}

TEST(LivenessTest, AnEngineThatMovesNothingIsDead) {
  EXPECT_EQ(Live(kDeadline, {.seconds = 3600}), "alive");
  EXPECT_EQ(Live(kDeadline + 1, {.seconds = 3600}), "stuck");
  EXPECT_EQ(Live(3600, {.seconds = kDeadline + 1}), "stuck");
  engine::EngineStats stats;
  stats.turn_s = 400;
  EXPECT_THAT(Liveness({.seconds = 500}, stats, kDeadline).detail, HasSubstr("400 s"));
}

TEST(HealthTest, SaysWhyRequestsAreNotServed) {
  const std::vector<execution::WorkerStatus> up = {{.address = "a", .up = true},
                                                   {.address = "b", .up = true}};
  std::vector<execution::WorkerStatus> down = up;
  down[1].up = false;
  down[1].error = "connection refused";
  engine::EngineStats moving, stuck;
  stuck.stalled_s = 1000;
  EXPECT_EQ(Health(up, moving, false).status, "ready");
  EXPECT_EQ(Health(up, stuck, false).status, "stuck");
  EXPECT_EQ(Health(down, stuck, false).status, "degraded");
  EXPECT_EQ(Health(down, stuck, false).detail, "worker b: connection refused");
  EXPECT_EQ(Health(down, stuck, true).status, "draining");
}

}  // namespace
}  // namespace numoe::startup
