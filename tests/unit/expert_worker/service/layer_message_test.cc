// Layer calls over gRPC: what a peer may write, and what is refused.
#include "expert_worker/service/layer_message.h"

#include "common/base/limits.h"
#include "common/transport/transport_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string Raw(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

v1::LayerCall Message() {
  v1::LayerCall call;
  call.set_instance(7);
  call.set_layer(3);
  call.set_tokens(2);
  call.set_experts_per_token(2);
  call.set_deferred_experts(1);
  call.set_exact(true);
  call.set_hidden(Raw<float>({1, 2, 3, 4, 5, 6}));
  call.set_experts(Raw<ExpertId>({0, 5, kNoExpert, 1}));
  call.set_weights(Raw<float>({0.5f, 0.25f, 0.0f, 1.0f}));
  return call;
}

std::string Refused(const v1::LayerCall& call) {
  LayerMessageBuffers buffers;
  const auto view = ReadLayerMessage(call, 3, buffers);
  EXPECT_TRUE(absl::IsInvalidArgument(view.status()));
  return std::string(view.status().message());
}

TEST(LayerMessageTest, EveryFieldArrives) {
  LayerMessageBuffers buffers;
  const auto view = ReadLayerMessage(Message(), 3, buffers);
  ASSERT_TRUE(view.ok()) << view.status();
  EXPECT_EQ(view->instance, 7u);
  EXPECT_EQ(view->layer, 3);
  EXPECT_EQ(view->tokens, 2);
  EXPECT_EQ(view->experts_per_token, 2);
  EXPECT_EQ(view->deferred_experts, 1);
  EXPECT_TRUE(view->batch_invariant);
  EXPECT_THAT(view->hidden, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(view->experts, ElementsAre(0, 5, kNoExpert, 1));
  EXPECT_THAT(view->weights, ElementsAre(0.5f, 0.25f, 0.0f, 1.0f));
}

TEST(LayerMessageTest, CountsOutOfBoundsAreRefused) {
  for (const int tokens : {0, -1, limits::kCallTokensMax + 1}) {
    v1::LayerCall call = Message();
    call.set_tokens(tokens);
    EXPECT_THAT(Refused(call), HasSubstr(std::to_string(tokens) + " tokens with 2 experts each"));
  }
  for (const int experts : {0, -5, limits::kExpertsPerTokenMax + 1}) {
    v1::LayerCall call = Message();
    call.set_experts_per_token(experts);
    EXPECT_THAT(Refused(call), HasSubstr("tokens with " + std::to_string(experts) + " experts each"));
  }
}

TEST(LayerMessageTest, NotAllExpertsCanBeDeferredNorThoseOfManyTokens) {
  for (const int deferred : {-1, 2, 100}) {
    v1::LayerCall call = Message();
    call.set_deferred_experts(deferred);
    EXPECT_THAT(Refused(call), HasSubstr(std::to_string(deferred) + " deferred of 2 experts"));
  }
  v1::LayerCall many = Message();
  many.set_tokens(limits::kDeferringTokensMax + 1);
  EXPECT_THAT(Refused(many), HasSubstr("deferred"));
}

TEST(LayerMessageTest, LengthsFitTheCounts) {
  for (const auto change : {+[](v1::LayerCall& c) { c.mutable_hidden()->pop_back(); },
                            +[](v1::LayerCall& c) { c.mutable_experts()->append("x"); },
                            +[](v1::LayerCall& c) { c.clear_weights(); }}) {
    v1::LayerCall call = Message();
    change(call);
    EXPECT_THAT(Refused(call), HasSubstr("bytes, expected 24 + 16 + 16"));
  }
}

}  // namespace
}  // namespace numoe::worker
