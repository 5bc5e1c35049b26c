// Grouping by expert: order, completeness, slices, reuse of buffers, bad ids.
#include "expert_worker/grouping/token_groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Call {
  std::vector<ExpertId> experts;
  std::vector<float> weights;
  LayerCallView view;
};

Call MakeCall(int experts_per_token, std::vector<ExpertId> experts) {
  Call call{.experts = std::move(experts), .weights = {}, .view = {}};
  for (size_t i = 0; i < call.experts.size(); ++i) call.weights.push_back(0.5f + static_cast<float>(i));
  call.view = {.layer = 5,
               .tokens = static_cast<int>(call.experts.size()) / experts_per_token,
               .experts_per_token = experts_per_token};
  call.view.experts = call.experts;
  call.view.weights = call.weights;
  return call;
}

TEST(TokenGroupsTest, ExpertsAscendAndTokensAscendWithin) {
  const Call call = MakeCall(2, {3, 1, 1, 0, 3, 0});
  TokenGroups groups;
  ASSERT_TRUE(GroupTokens(call.view, std::vector<bool>(4, true), groups).ok());
  ASSERT_EQ(groups.groups.size(), 3u);
  EXPECT_EQ(groups.groups[0].expert, 0);
  EXPECT_EQ(groups.groups[1].expert, 1);
  EXPECT_EQ(groups.groups[2].expert, 3);
  EXPECT_EQ(groups.groups[2].row_begin, 4);
  EXPECT_EQ(groups.groups[2].rows, 2);
  EXPECT_THAT(groups.tokens, ElementsAre(1, 2, 0, 1, 0, 2));
  EXPECT_THAT(groups.weights, ElementsAre(3.5f, 5.5f, 1.5f, 2.5f, 0.5f, 4.5f));
}

TEST(TokenGroupsTest, ExpertsOfOtherWorkersAreLeftOut) {
  const Call call = MakeCall(2, {3, 1, 1, 0, 3, 0});
  TokenGroups groups;
  ASSERT_TRUE(GroupTokens(call.view, {false, true, false, false}, groups).ok());
  ASSERT_EQ(groups.groups.size(), 1u);
  EXPECT_EQ(groups.groups[0].expert, 1);
  EXPECT_THAT(groups.tokens, ElementsAre(0, 1));
  ASSERT_TRUE(GroupTokens(call.view, std::vector<bool>(4, false), groups).ok());
  EXPECT_TRUE(groups.groups.empty());
  EXPECT_TRUE(groups.tokens.empty());
}

TEST(TokenGroupsTest, RandomCallsKeepEveryPairInAnyReusedBuffer) {
  std::mt19937 random(7);
  TokenGroups groups;  // one for all calls, so that leftovers of an earlier call would be noticed
  for (int round = 0; round < 200; ++round) {
    const int experts = 1 + static_cast<int>(random() % 40);
    const int k = 1 + static_cast<int>(random() % static_cast<unsigned>(std::min(experts, 8)));
    const int tokens = 1 + static_cast<int>(random() % 30);
    std::vector<ExpertId> ids;
    std::vector<ExpertId> all(static_cast<size_t>(experts));
    std::iota(all.begin(), all.end(), 0);
    for (int t = 0; t < tokens; ++t) {
      std::shuffle(all.begin(), all.end(), random);
      ids.insert(ids.end(), all.begin(), all.begin() + k);
    }
    const Call call = MakeCall(k, ids);
    std::map<std::pair<ExpertId, int>, float> expected;
    for (size_t i = 0; i < ids.size(); ++i) expected[{ids[i], static_cast<int>(i) / k}] = call.weights[i];
    ASSERT_TRUE(GroupTokens(call.view, std::vector<bool>(static_cast<size_t>(experts), true), groups).ok());
    std::map<std::pair<ExpertId, int>, float> found;
    int next = 0;
    for (const ExpertGroup& group : groups.groups) {
      EXPECT_EQ(group.row_begin, next);
      EXPECT_GT(group.rows, 0);
      next += group.rows;
      for (int row = group.row_begin; row < next; ++row) {
        found[{group.expert, groups.tokens[static_cast<size_t>(row)]}] =
            groups.weights[static_cast<size_t>(row)];
      }
    }
    EXPECT_EQ(static_cast<size_t>(next), groups.tokens.size());
    EXPECT_EQ(found, expected);
  }
}

TEST(TokenGroupsTest, BadIdsAreNamedWithTheirToken) {
  TokenGroups groups;
  const std::vector<bool> owned(4, true);
  EXPECT_THAT(GroupTokens(MakeCall(2, {0, 1, 2, 4}).view, owned, groups).ToString(),
              HasSubstr("layer 5 token 1: expert id 4, expected 0 to 3"));
  EXPECT_THAT(GroupTokens(MakeCall(1, {-2}).view, owned, groups).ToString(),
              HasSubstr("token 0: expert id -2"));
  EXPECT_THAT(GroupTokens(MakeCall(2, {0, 1, 2, 2}).view, owned, groups).ToString(),
              HasSubstr("layer 5 token 1: expert id 2 twice"));
}

TEST(TokenGroupsTest, EntriesWithoutAnExpertHaveNoRows) {
  TokenGroups groups;
  const std::vector<bool> owned(4, true);
  const Call call = MakeCall(3, {kNoExpert, 1, kNoExpert, kNoExpert, 3, kNoExpert});
  ASSERT_TRUE(GroupTokens(call.view, owned, groups).ok());
  ASSERT_EQ(groups.groups.size(), 2u);
  EXPECT_EQ(groups.groups[0].expert, 1);
  EXPECT_EQ(groups.groups[1].expert, 3);
  EXPECT_EQ(groups.tokens, (std::vector<int>{0, 1}));
}

}  // namespace
}  // namespace numoe::worker
