// Layer calls and replies as bytes: round trips, every wrong descriptor, random bytes.
#include "common/transport/call_codec.h"

#include <cstring>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

class CallCodecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    hidden_ = {1, 2, 3, 4, 5, 6, 7, 8};
    experts_ = {0, 3, 2, 1};
    weights_ = {0.1f, 0.2f, 0.3f, 0.4f};
    slot_.resize(4096 / sizeof(double));
    length_ = EncodeRequest(7,
                            {.instance = 0x123456789abcdef0,
                             .layer = 3,
                             .tokens = 2,
                             .experts_per_token = 2,
                             .batch_invariant = true,
                             .hidden = hidden_,
                             .experts = experts_,
                             .weights = weights_},
                            Slot());
  }
  absl::Span<std::byte> Slot() {
    return {reinterpret_cast<std::byte*>(slot_.data()), slot_.size() * sizeof(double)};
  }
  absl::Status Decode(size_t length) {
    return DecodeRequest(absl::MakeConstSpan(Slot()).subspan(0, length), {.hidden_size = 4, .num_experts = 4},
                         call_);
  }

  std::vector<float> hidden_, weights_;
  std::vector<ExpertId> experts_;
  std::vector<double> slot_;
  size_t length_ = 0;
  DecodedCall call_;
};

TEST_F(CallCodecTest, RequestsRoundTrip) {
  ASSERT_TRUE(Decode(length_).ok());
  EXPECT_EQ(call_.call_id, 7u);
  EXPECT_EQ(call_.view.instance, 0x123456789abcdef0u);
  EXPECT_EQ(call_.view.layer, 3);
  EXPECT_TRUE(call_.view.batch_invariant);
  EXPECT_EQ(std::vector<float>(call_.view.hidden.begin(), call_.view.hidden.end()), hidden_);
  EXPECT_EQ(call_.experts, experts_);
  EXPECT_EQ(call_.weights, weights_);
  EXPECT_EQ(call_.view.deferred_experts, 0);
}

TEST_F(CallCodecTest, DeferredExpertsRoundTrip) {
  length_ = EncodeRequest(8,
                          {.layer = 3,
                           .tokens = 2,
                           .experts_per_token = 2,
                           .deferred_experts = 1,
                           .hidden = hidden_,
                           .experts = experts_,
                           .weights = weights_},
                          Slot());
  ASSERT_TRUE(Decode(length_).ok());
  EXPECT_EQ(call_.view.deferred_experts, 1);
}

TEST_F(CallCodecTest, EveryWrongDescriptorIsRefused) {
  EXPECT_THAT(Decode(length_ - 1).ToString(), HasSubstr("expected"));
  EXPECT_THAT(Decode(10).ToString(), HasSubstr("at least 64"));
  const auto with = [&](size_t offset, int32_t value) {
    const auto saved = slot_;
    std::memcpy(Slot().data() + offset, &value, sizeof value);
    const std::string error = Decode(length_).ToString();
    slot_ = saved;
    return error;
  };
  EXPECT_THAT(with(20, 0), HasSubstr("0 tokens"));
  EXPECT_THAT(with(20, INT32_MAX), HasSubstr("tokens"));
  EXPECT_THAT(with(24, 1000), HasSubstr("experts per token"));
  EXPECT_THAT(with(28, 6), HasSubstr("flags"));
  EXPECT_THAT(with(32, 2), HasSubstr("2 deferred experts of 2 per token, expected 0 to 1"));
  EXPECT_THAT(with(32, -1), HasSubstr("-1 deferred experts"));
  EXPECT_THAT(with(64 + 32, 4), HasSubstr("expert id 4"));
  EXPECT_THAT(with(64 + 32, -2), HasSubstr("expert id -2, expected 0 to 3, or -1 for none"));
  EXPECT_EQ(with(64 + 32, kNoExpert), "OK");
}

TEST_F(CallCodecTest, RandomBytesNeverCrash) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    const auto saved = slot_;
    for (int i = 0; i < 4; ++i) Slot()[random() % 128] = static_cast<std::byte>(random());
    if (Decode(random() % (length_ + 64)).ok()) {
      EXPECT_EQ(call_.view.hidden.size(), static_cast<size_t>(call_.view.tokens) * 4);
    }
    (void)DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, random() % 256), 7, 8);
    slot_ = saved;
  }
}

TEST_F(CallCodecTest, RepliesRoundTripAndCarryErrors) {
  const absl::Span<float> partial = ReplyPartial(Slot(), 2, 4);
  for (size_t i = 0; i < partial.size(); ++i) partial[i] = static_cast<float>(i);
  const size_t length = EncodeReply(9, absl::OkStatus(), 2, 4, Slot());
  const auto reply = DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, length), 9, 8);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ((*reply)[7], 7.0f);
  EXPECT_THAT(DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, length), 8, 8).status().ToString(),
              HasSubstr("expected 8"));
  const size_t error = EncodeReply(9, absl::InvalidArgumentError("layer 99"), 2, 4, Slot());
  EXPECT_THAT(DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, error), 9, 8).status().ToString(),
              HasSubstr("layer 99"));
}

}  // namespace
}  // namespace numoe
