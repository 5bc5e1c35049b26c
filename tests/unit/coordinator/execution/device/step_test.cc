// The states of a layer's routed work in a step: the order in which its tickets may be used, and that each
// can be used only once.
#include "coordinator/execution/device/step.h"

#include "coordinator/execution/device/cpu/cpu_device.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

constexpr int kHidden = 8, kRoutes = 2;

// Replies with the values it was called with, so that a test sees which rows a reply was added to.
class CountingExperts final : public ExpertBackend {
 public:
  absl::Status Start(const LayerCallView& call) override {
    if (lost) return absl::UnavailableError("a worker is gone");
    tokens.push_back(call.tokens);
    return absl::OkStatus();
  }
  absl::Status Finish(absl::Span<float> out) override {
    for (float& value : out) value += 1;
    return absl::OkStatus();
  }
  absl::Status FinishDeferred(absl::Span<float> out) override {
    for (float& value : out) value += 10;
    return absl::OkStatus();
  }
  absl::Status AwaitReady(int64_t) override { return absl::OkStatus(); }
  bool Ready() const override { return true; }

  std::vector<int> tokens;  // of each call
  bool lost = false;
};

class StepTest : public ::testing::Test {
 protected:
  StepTest() {
    device_->ConnectExperts(experts_);
    in_ = device_->store().NewTensor(kHidden);
    sums_ = device_->store().NewTensor(kHidden);
    routes_ = device_->store().NewRouteTable(kRoutes);
    for (int t = 0; t < 5; ++t) {
      layout_.tokens.push_back(0);
      layout_.positions.push_back(t);
      layout_.sequences.push_back(0);
    }
  }

  StagedExperts Stage(Step& step, Rows rows) { return step.StageExperts(rows, 0, in_, routes_); }
  std::vector<float> Sums(Step& step) {
    const auto output = step.ReadLogits(step.all(), sums_);
    std::vector<float> first;
    for (size_t t = 0; t < 5; ++t) first.push_back(output->logits[t * kHidden]);
    return first;
  }

  CountingExperts experts_;
  const std::unique_ptr<CpuDevice> device_ = *CpuDevice::Create({.step_tokens_max = 5, .cpus = {0}});
  StepLayout layout_;
  Tensor in_, sums_;
  RouteTable routes_;
};

TEST_F(StepTest, AHalfIsSentWhileNoCallIsInFlightAndAddedToItsOwnRows) {
  layout_.second_half = 2;
  const std::unique_ptr<Step> step = device_->Begin(layout_);
  ASSERT_EQ(step->parts().size(), 2u);
  EXPECT_EQ(step->expert_execution(), ExpertExecution::kHalves);
  auto first = step->SendExperts(Stage(*step, step->parts()[0]), sums_);
  ASSERT_TRUE(first.ok());
  StagedExperts second = Stage(*step, step->parts()[1]);  // while the first half's call is in flight
  ASSERT_TRUE(step->AddExperts(*std::move(first), sums_).ok());
  EXPECT_EQ(Sums(*step), (std::vector<float>{1, 1, 0, 0, 0}));
  auto sent = step->SendExperts(std::move(second), sums_);
  ASSERT_TRUE(sent.ok());
  const auto added = step->AddExperts(*std::move(sent), sums_);
  ASSERT_TRUE(added.ok());
  EXPECT_FALSE(added->has_value()) << "nothing was deferred";
  EXPECT_EQ(Sums(*step), (std::vector<float>{1, 1, 1, 1, 1}));
  EXPECT_EQ(experts_.tokens, (std::vector<int>{2, 3}));
}

TEST_F(StepTest, DeferredExpertsAreASeparateTicket) {
  layout_.deferred_experts = 1;
  const std::unique_ptr<Step> step = device_->Begin(layout_);
  auto sent = step->SendExperts(Stage(*step, step->all()), sums_);
  ASSERT_TRUE(sent.ok());
  auto deferred = step->AddExperts(*std::move(sent), sums_);
  ASSERT_TRUE(deferred.ok() && deferred->has_value());
  EXPECT_EQ(Sums(*step)[0], 1);
  ASSERT_TRUE(step->AddDeferredExperts(**std::move(deferred), sums_).ok());
  EXPECT_EQ(Sums(*step)[0], 11);
}

TEST_F(StepTest, AStepThatLostAWorkerIsDroppedAndTheNextOneBegins) {
  experts_.lost = true;
  {
    const std::unique_ptr<Step> step = device_->Begin(layout_);
    EXPECT_TRUE(absl::IsUnavailable(step->SendExperts(Stage(*step, step->all()), sums_).status()));
  }
  experts_.lost = false;
  const std::unique_ptr<Step> step = device_->Begin(layout_);
  EXPECT_TRUE(step->SendExperts(Stage(*step, step->all()), sums_).ok());
}

using StepDeathTest = StepTest;

TEST_F(StepDeathTest, ATicketIsUsedOnce) {
  const std::unique_ptr<Step> step = device_->Begin(layout_);
  StagedExperts staged = Stage(*step, step->all());
  const StagedExperts taken = std::move(staged);
  EXPECT_EQ(taken.work().rows.count, 5);
  EXPECT_DEATH((void)staged.work(), "used twice");
}

TEST_F(StepDeathTest, NoSecondCallIsSentWhileOneIsInFlight) {
  const std::unique_ptr<Step> step = device_->Begin(layout_);
  const auto sent = step->SendExperts(Stage(*step, step->all()), sums_);
  ASSERT_TRUE(sent.ok());
  StagedExperts staged = Stage(*step, step->all());
  EXPECT_DEATH((void)step->SendExperts(std::move(staged), sums_), "at most one layer call may be in flight");
}

TEST_F(StepDeathTest, DeferredExpertsAreAddedBeforeTheNextCallIsStaged) {
  layout_.deferred_experts = 1;
  const std::unique_ptr<Step> step = device_->Begin(layout_);
  auto sent = step->SendExperts(Stage(*step, step->all()), sums_);
  const auto deferred = step->AddExperts(*std::move(sent), sums_);
  EXPECT_DEATH(Stage(*step, step->all()), "deferred experts must be added");
}

TEST_F(StepDeathTest, RowsOfAHalfNeedAStepInHalves) {
  const std::unique_ptr<Step> step = device_->Begin(layout_);
  EXPECT_DEATH(step->ops().Attend({RowSet::kFirstHalf, 0, 2}, {}), "");
}

}  // namespace
}  // namespace numoe::execution
