// The plan covers every part of every token's head exactly once, whatever the batch and the threads.
#include "coordinator/execution/device/cpu/attend_plan.h"

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

// Returns a step with (position of the first token, tokens) for each sequence.
StepLayout Layout(const std::vector<std::pair<int, int>>& sequences) {
  StepLayout layout;
  for (size_t s = 0; s < sequences.size(); ++s) {
    for (int i = 0; i < sequences[s].second; ++i) {
      layout.tokens.push_back(1);
      layout.positions.push_back(sequences[s].first + i);
      layout.sequences.push_back(static_cast<int32_t>(s));
    }
  }
  return layout;
}

void ExpectCovered(const StepLayout& layout, const AttendShape& shape, const AttendPlan& plan) {
  std::map<std::tuple<int, int, int>, int> done;    // token, head, part
  std::map<std::pair<int, int>, int> last_part;     // token, head: parts of one task are in order
  std::set<int64_t> scattered;                      // rows
  std::map<std::tuple<int, int, int>, int64_t> at;  // the row of a scattered part
  for (const AttendTask& task : plan.tasks) {
    ASSERT_LT(task.token_begin, task.token_end);
    ASSERT_EQ(layout.sequences[static_cast<size_t>(task.token_begin)],
              layout.sequences[static_cast<size_t>(task.token_end - 1)]);
    ASSERT_EQ(task.head_begin / (shape.heads / shape.kv_heads), task.kv_head);
    ASSERT_EQ((task.head_end - 1) / (shape.heads / shape.kv_heads), task.kv_head);
    for (int t = task.token_begin; t < task.token_end; ++t) {
      for (int h = task.head_begin; h < task.head_end; ++h) {
        for (int part = task.part_begin; part < task.part_end; ++part) {
          ++done[{t, h, part}];
          if (task.scattered_parts == 0) continue;
          ASSERT_LT(part, task.scattered_parts);
          const int64_t row = task.scattered +
                              (int64_t{t - task.token_begin} * shape.heads + h) * task.scattered_parts + part;
          EXPECT_TRUE(scattered.insert(row).second) << "row " << row << " twice";
          EXPECT_LT(row, plan.scattered_rows);
          at[{t, h, part}] = row;
        }
        if (task.scattered_parts == 0) {
          EXPECT_EQ(task.part_begin, 0);
          EXPECT_TRUE(last_part.emplace(std::pair{t, h}, task.part_end).second)
              << "a row that is not scattered has two owners";
        }
      }
    }
  }
  for (size_t t = 0; t < layout.tokens.size(); ++t) {
    for (int h = 0; h < shape.heads; ++h) {
      for (int part = 0; part <= layout.positions[t] / kPartKeys; ++part) {
        const int times = done[{static_cast<int>(t), h, part}];
        EXPECT_EQ(times, 1) << "token " << t << " head " << h << " part " << part;
      }
    }
  }
  std::set<int> joined;
  for (const AttendJoin& join : plan.joins) {
    EXPECT_TRUE(joined.insert(join.token).second);
    for (int h = 0; h < shape.heads; ++h) {
      for (int part = 0; part < join.parts; ++part) {
        const auto found = at.find({join.token, h, part});
        ASSERT_NE(found, at.end()) << "joins a part that no task computes";
        EXPECT_EQ(found->second, join.scattered + int64_t{h} * join.parts + part);
        at.erase(found);
      }
    }
  }
  EXPECT_TRUE(at.empty()) << "scattered parts that no join adds";
}

TEST(AttendPlanTest, CoversEveryPartOnceForAnyBatch) {
  std::mt19937 random(3);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<std::pair<int, int>> sequences;
    for (int s = 0; s <= below(5); ++s) {
      sequences.emplace_back(below(4) == 0 ? 0 : below(5000), below(3) == 0 ? 1 + below(300) : 1);
    }
    const int kv_heads = 1 << below(3);
    const int group = 1 + below(3) * 20 + below(8);
    const AttendShape shape{.heads = kv_heads * group, .kv_heads = kv_heads, .threads = 1 << below(8)};
    const StepLayout layout = Layout(sequences);
    const AttendPlan plan = PlanAttend(layout, FindRuns(layout), shape);
    ExpectCovered(layout, shape, plan);
    if (HasFailure()) {
      FAIL() << "round " << round << ": " << shape.heads << " heads, " << shape.kv_heads << " cache heads, "
             << shape.threads << " threads\n"
             << Describe(plan);
    }
  }
}

TEST(AttendPlanTest, OneDecodingTokenKeepsAllThreadsBusy) {
  const StepLayout layout = Layout({{8191, 1}});
  for (const auto& [heads, kv_heads] : {std::pair{32, 4}, {64, 1}, {64, 4}}) {
    for (const int threads : {4, 16}) {
      const AttendPlan plan = PlanAttend(layout, FindRuns(layout), {heads, kv_heads, threads});
      EXPECT_GE(plan.tasks.size(), static_cast<size_t>(2 * threads)) << heads << " heads";
      EXPECT_EQ(plan.joins.size(), 1u);
    }
  }
}

TEST(AttendPlanTest, LongPromptsAreNotScattered) {
  const StepLayout layout = Layout({{7680, 512}});
  const AttendPlan plan = PlanAttend(layout, FindRuns(layout), {.heads = 64, .kv_heads = 1, .threads = 8});
  EXPECT_EQ(plan.scattered_rows, 0);
  EXPECT_TRUE(plan.joins.empty());
  for (size_t i = 1; i < plan.tasks.size(); ++i) {
    EXPECT_LE(plan.tasks[i].token_end, plan.tasks[i - 1].token_begin) << "the longest must be first";
  }
}

TEST(AttendPlanTest, DescribesThePlan) {
  const StepLayout layout = Layout({{600, 1}});
  const AttendPlan plan = PlanAttend(layout, FindRuns(layout), {.heads = 2, .kv_heads = 1, .threads = 2});
  EXPECT_EQ(Describe(plan),
            "tokens 0-1 heads 0-2 parts 0-1 scattered\ntokens 0-1 heads 0-2 parts 1-2 scattered\n"
            "1 joins, 4 scattered rows\n");
}

}  // namespace
}  // namespace numoe::execution
