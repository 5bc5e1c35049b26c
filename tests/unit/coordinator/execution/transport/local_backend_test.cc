// Slices in this process: sums in worker order, separate sums of deferred experts, errors.
#include "coordinator/execution/transport/local_backend.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using ::testing::ElementsAre;

// Adds its own number for each expert of a token, multiplied by the weight.
class Numbered final : public LayerExecutor {
 public:
  explicit Numbered(float number) : number_(number) {}
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    ++calls;
    if (!error.ok()) return error;
    for (int t = 0; t < call.tokens; ++t) {
      float sum = 0;
      for (int k = 0; k < call.experts_per_token; ++k)
        sum += number_ * call.weights[static_cast<size_t>(t * call.experts_per_token + k)];
      out[static_cast<size_t>(t)] = sum;
    }
    return absl::OkStatus();
  }
  int calls = 0;
  absl::Status error;

 private:
  const float number_;
};

class LocalBackendTest : public ::testing::Test {
 protected:
  LayerCallView Call(int deferred) const {
    return {.layer = 1,
            .tokens = 2,
            .experts_per_token = 3,
            .deferred_experts = deferred,
            .hidden = hidden_,
            .experts = experts_,
            .weights = weights_};
  }
  const std::vector<float> hidden_ = {1, 2}, weights_ = {1, 2, 4, 8, 16, 32};
  const std::vector<ExpertId> experts_ = {0, 1, 2, 0, 1, 2};
  Numbered one_{1}, hundred_{100};
  LocalBackend backend_{{&one_, &hundred_}};
  std::vector<float> out_ = {1000, 2000};
};

TEST_F(LocalBackendTest, SumsOfSlicesAreAddedToTheOutput) {
  ASSERT_TRUE(backend_.Start(Call(0)).ok());
  EXPECT_EQ(one_.calls, 0) << "the executor computes in Finish";
  ASSERT_TRUE(backend_.Finish(absl::MakeSpan(out_)).ok());
  EXPECT_THAT(out_, ElementsAre(1000 + 101 * 7, 2000 + 101 * 56));
}

TEST_F(LocalBackendTest, DeferredExpertsHaveASeparateSum) {
  ASSERT_TRUE(backend_.Start(Call(1)).ok());
  ASSERT_TRUE(backend_.Finish(absl::MakeSpan(out_)).ok());
  EXPECT_THAT(out_, ElementsAre(1000 + 101 * 3, 2000 + 101 * 24));
  std::vector<float> later = {0, 0};
  ASSERT_TRUE(backend_.FinishDeferred(absl::MakeSpan(later)).ok());
  EXPECT_THAT(later, ElementsAre(101 * 4, 101 * 32));
}

TEST_F(LocalBackendTest, AnErrorOfASliceIsTheErrorOfTheCall) {
  hundred_.error = absl::InvalidArgumentError("layer 1");
  ASSERT_TRUE(backend_.Start(Call(0)).ok());
  EXPECT_EQ(backend_.Finish(absl::MakeSpan(out_)), hundred_.error);
}

}  // namespace
}  // namespace numoe::execution
