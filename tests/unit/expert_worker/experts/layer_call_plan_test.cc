// For any groups and any shape, each phase of a plan computes each of its values once, and no two rows share
// scratch.
#include "expert_worker/experts/layer_call_plan.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "common/kernels/layout.h"
#include "common/linear/quantised_rows.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/kernels/emulated_amx.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;

std::vector<ExpertGroup> GroupsOf(const std::vector<int>& rows) {
  std::vector<ExpertGroup> groups;
  int begin = 0;
  for (const int count : rows) {
    groups.push_back({static_cast<ExpertId>(2 * groups.size()), begin, count});
    begin += count;
  }
  return groups;
}

// Counts how often each number of [0, size) is in the ranges that are added.
class Coverage {
 public:
  explicit Coverage(int size) : times_(static_cast<size_t>(size)) {}
  void Add(int begin, int end) {
    ASSERT_LE(0, begin);
    ASSERT_LT(begin, end);
    ASSERT_LE(static_cast<size_t>(end), times_.size());
    for (int i = begin; i < end; ++i) ++times_[static_cast<size_t>(i)];
  }
  void ExpectOnce() const { EXPECT_EQ(std::count(times_.begin(), times_.end(), 1), std::ssize(times_)); }
  int times(int i) const { return times_[static_cast<size_t>(i)]; }

 private:
  std::vector<int> times_;
};

// Checks regions [begin, end) of one scratch that are used at the same time.
void ExpectApart(std::vector<std::pair<size_t, size_t>> regions, size_t bytes) {
  std::sort(regions.begin(), regions.end());
  size_t free = 0;
  for (const auto& [begin, end] : regions) {
    EXPECT_LE(free, begin) << "two rows share scratch";
    free = end;
  }
  EXPECT_LE(free, bytes);
}

class PlanChecker {
 public:
  PlanChecker(const std::vector<ExpertGroup>& groups, const LayerCallShape& shape, const LayerCallPlan& plan)
      : groups_(groups), shape_(shape), plan_(plan) {}

  void Check() {
    CheckGroups();
    CheckQuantising();
    ASSERT_EQ(plan_.phases.size(), plan_.phase_tasks.size());
    int group = 0;
    for (size_t p = 1; p < plan_.phases.size(); p += 3) group = CheckBatch(p, group);
    EXPECT_EQ(group, static_cast<int>(groups_.size())) << "groups that no batch has";
    EXPECT_EQ(gathers_, plan_.gather.size());
    EXPECT_EQ(gates_, plan_.gate_and_up.size());
    EXPECT_EQ(downs_, plan_.down.size());
  }

 private:
  void CheckGroups() {
    ASSERT_EQ(plan_.groups.size(), groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      const GroupPlan& planned = plan_.groups[g];
      EXPECT_EQ(planned.group.expert, groups_[g].expert);
      EXPECT_EQ(planned.group.row_begin, groups_[g].row_begin);
      EXPECT_EQ(planned.group.rows, groups_[g].rows);
      const auto choose = [&](WeightFormat format) {
        return ChooseActivationFormat(shape_.isa, format, groups_[g].rows, shape_.precision);
      };
      EXPECT_EQ(planned.x_format, choose(shape_.formats.up));
      EXPECT_EQ(planned.h_format, choose(shape_.formats.down));
    }
  }

  // Every column of every token is quantised once, in the formats that groups read, unless plain fp32 rows
  // are already in that format.
  void CheckQuantising() {
    ASSERT_EQ(plan_.phases[0].kind, LayerPhase::Kind::kQuantise);
    ASSERT_EQ(plan_.phases[0].first_task, 0);
    ASSERT_EQ(static_cast<size_t>(plan_.phase_tasks[0]), plan_.quantise.size());
    std::map<ActivationFormat, Coverage> done;
    for (const GroupPlan& group : plan_.groups)
      if (!IsPlainFp32(group.x_format, shape_.hidden_size))
        done.emplace(group.x_format, Coverage(shape_.tokens * shape_.hidden_size));
    for (const QuantiseTask& task : plan_.quantise) {
      ASSERT_EQ(done.count(task.format), 1u) << "a format that no group reads";
      ASSERT_LT(task.token_begin, task.token_end);
      ASSERT_EQ(task.col_begin % layout::kStepCols, 0);
      ASSERT_TRUE(task.col_end % layout::kStepCols == 0 || task.col_end == shape_.hidden_size);
      for (int token = task.token_begin; token < task.token_end; ++token)
        done.at(task.format)
            .Add(token * shape_.hidden_size + task.col_begin, token * shape_.hidden_size + task.col_end);
    }
    for (const auto& [format, coverage] : done) {
      coverage.ExpectOnce();
      EXPECT_EQ(plan_.quantised_bytes[static_cast<size_t>(format)],
                QuantisedMemory::Bytes(format, shape_.hidden_size, shape_.tokens));
    }
  }

  // Checks the phases p, p + 1 and p + 2, whose first group must be `first`; returns the next batch's first
  // group.
  int CheckBatch(size_t p, int first) {
    const int end = plan_.phases[p].group_end;
    int rows = 0;
    for (int g = first; g < end; ++g) rows += plan_.groups[static_cast<size_t>(g)].group.rows;
    EXPECT_TRUE(rows <= 4096 || end == first + 1)
        << rows << " rows in a batch of " << end - first << " groups";
    for (size_t i = p; i < p + 3; ++i) {
      EXPECT_EQ(plan_.phases[i].group_begin, first);
      EXPECT_EQ(plan_.phases[i].group_end, end);
    }
    CheckScratch(first, end);
    CheckGather(p, first, end);
    CheckGateAndUp(p + 1, first, end);
    CheckDown(p + 2);
    return end;
  }

  void CheckScratch(int first, int end) {
    std::vector<std::pair<size_t, size_t>> gathered, intermediate;
    for (int g = first; g < end; ++g) {
      const GroupPlan& group = plan_.groups[static_cast<size_t>(g)];
      intermediate.emplace_back(
          group.h_offset,
          group.h_offset + QuantisedMemory::Bytes(group.h_format, shape_.width, group.group.rows));
      if (!group.gathered()) continue;
      gathered.emplace_back(
          group.x_offset,
          group.x_offset + QuantisedMemory::Bytes(group.x_format, shape_.hidden_size, group.group.rows));
    }
    ExpectApart(gathered, plan_.gathered_bytes);
    ExpectApart(intermediate, plan_.intermediate_bytes);
  }

  // Each group of several rows is gathered once.
  void CheckGather(size_t p, int first, int end) {
    ASSERT_EQ(plan_.phases[p].kind, LayerPhase::Kind::kGather);
    ASSERT_EQ(static_cast<size_t>(plan_.phases[p].first_task), gathers_);
    Coverage done(end);
    for (int i = 0; i < plan_.phase_tasks[p]; ++i) {
      const int g = plan_.gather[gathers_++];
      done.Add(g, g + 1);
    }
    for (int g = first; g < end; ++g)
      EXPECT_EQ(done.times(g), groups_[static_cast<size_t>(g)].rows > 1 ? 1 : 0);
  }

  // Each output of each group is computed once, in whole steps of what down reads, which are whole panels,
  // too.
  void CheckGateAndUp(size_t p, int first, int end) {
    ASSERT_EQ(plan_.phases[p].kind, LayerPhase::Kind::kGateAndUp);
    ASSERT_EQ(static_cast<size_t>(plan_.phases[p].first_task), gates_);
    Coverage done((end - first) * shape_.width);
    for (int i = 0; i < plan_.phase_tasks[p]; ++i) {
      const GateAndUpTask& task = plan_.gate_and_up[gates_++];
      ASSERT_TRUE(first <= task.group && task.group < end);
      ASSERT_EQ(task.row_begin % layout::kStepCols, 0);
      ASSERT_TRUE(task.row_end % layout::kStepCols == 0 || task.row_end == shape_.width);
      const int base = (task.group - first) * shape_.width;
      done.Add(base + task.row_begin, base + task.row_end);
    }
    done.ExpectOnce();
  }

  void CheckDown(size_t p) {
    ASSERT_EQ(plan_.phases[p].kind, LayerPhase::Kind::kDown);
    ASSERT_EQ(static_cast<size_t>(plan_.phases[p].first_task), downs_);
    Coverage done(shape_.hidden_size);
    for (int i = 0; i < plan_.phase_tasks[p]; ++i) {
      const DownTask& task = plan_.down[downs_++];
      ASSERT_EQ(task.row_begin % kPanelRows, 0);
      ASSERT_TRUE(task.row_end % kPanelRows == 0 || task.row_end == shape_.hidden_size);
      done.Add(task.row_begin, task.row_end);
    }
    done.ExpectOnce();
  }

  const std::vector<ExpertGroup>& groups_;
  const LayerCallShape& shape_;
  const LayerCallPlan& plan_;
  size_t gathers_ = 0, gates_ = 0, downs_ = 0;
};

TEST(LayerCallPlanTest, ComputesEveryValueOnceForAnyGroupsAndShape) {
  UseEmulator();
  std::vector<Isa> isas;
  for (const char* isa : {"scalar", "avx2", "avx512", "amx"})
    if (SelectIsa(isa).ok()) isas.push_back(*ParseIsa(isa));
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  LayerCallPlan plan;  // of one call after the other
  for (int round = 0; round < 400; ++round) {
    const bool is_long = below(40) == 0;
    LayerCallShape shape{.tokens = is_long ? 3000 + below(5193) : 1 + below(below(2) == 0 ? 4 : 100),
                         .hidden_size = is_long ? 96 : 16 * (1 + below(200)),
                         .width = 16 * (1 + below(100)),
                         .formats = {static_cast<WeightFormat>(below(kWeightFormats)),
                                     static_cast<WeightFormat>(below(kWeightFormats))},
                         .isa = isas[static_cast<size_t>(below(static_cast<int>(isas.size())))],
                         .precision = static_cast<Precision>(below(3)),
                         .threads = 1 + below(1 << below(8))};
    std::vector<int> rows;
    for (int g = 0; g <= below(24); ++g) rows.push_back(1 + below(below(3) == 0 ? 1 : shape.tokens));
    const std::vector<ExpertGroup> groups = GroupsOf(rows);
    PlanLayerCall(groups, shape, plan);
    PlanChecker(groups, shape, plan).Check();
    if (HasFailure()) {
      FAIL() << "round " << round << ": " << shape.tokens << " tokens, hidden size " << shape.hidden_size
             << ", width " << shape.width << ", isa " << IsaName(shape.isa) << ", " << shape.threads
             << " threads\n"
             << plan.ToString();
    }
  }
}

TEST(LayerCallPlanTest, NothingIsPlannedForNoGroups) {
  LayerCallPlan plan;
  const LayerCallShape shape{.tokens = 4, .hidden_size = 64, .width = 64};
  PlanLayerCall(GroupsOf({2, 1}), shape, plan);
  EXPECT_EQ(plan.phases.size(), 4u);
  PlanLayerCall({}, shape, plan);
  EXPECT_TRUE(plan.phases.empty() && plan.phase_tasks.empty() && plan.groups.empty());
}

// Groups with many rows and with few are computed in turn if neither memory nor arithmetic is the limit
// alone.
TEST(LayerCallPlanTest, UnlikeGroupsAreComputedSideBySide) {
  const auto order = [](const std::vector<int>& rows) {
    LayerCallPlan plan;
    PlanLayerCall(GroupsOf(rows),
                  {.tokens = 200, .hidden_size = 64, .width = 128, .formats = {}, .threads = 64}, plan);
    std::vector<int> groups;
    for (const GateAndUpTask& task : plan.gate_and_up) groups.push_back(task.group);
    return groups;
  };
  EXPECT_THAT(order({1, 9, 2, 30, 5}), ::testing::ElementsAre(3, 0, 1, 2, 3, 0, 1, 2, 4, 4));
  EXPECT_THAT(order({1, 1, 1}), ::testing::ElementsAre(0, 0, 1, 1, 2, 2));
  EXPECT_THAT(order({20, 100, 30}), ::testing::ElementsAre(0, 0, 1, 1, 2, 2));
}

TEST(LayerCallPlanTest, IsPrintedWithItsGroupsAndTasks) {
  LayerCallPlan plan;
  PlanLayerCall(GroupsOf({3, 1}), {.tokens = 3, .hidden_size = 64, .width = 96, .threads = 4}, plan);
  const std::string text = plan.ToString();
  EXPECT_THAT(text, HasSubstr("2 groups, 768 bytes gathered"));
  EXPECT_THAT(text, HasSubstr("expert 2: 1 rows from row 3"));
  EXPECT_THAT(text, HasSubstr("gather, 1 tasks, groups 0 to 2: 0\n"));
  EXPECT_THAT(text, HasSubstr("gate and up, 4 tasks, groups 0 to 2: 0:[0,64) 1:[0,64) 0:[64,96) 1:[64,96)"));
  EXPECT_THAT(text, HasSubstr("down, 2 tasks, groups 0 to 2: [0,32) [32,64)"));
}

TEST(LayerCallPlanDeathTest, GroupsThatAreNotOfTheCallAreRefused) {
  LayerCallPlan plan;
  const LayerCallShape shape{.tokens = 2, .hidden_size = 64, .width = 64};
  EXPECT_DEATH(PlanLayerCall(GroupsOf({3}), shape, plan), "3 rows");
  std::vector<ExpertGroup> groups = GroupsOf({1, 1});
  groups[1].row_begin = 0;
  EXPECT_DEATH(PlanLayerCall(groups, shape, plan), "row_begin");
  groups = GroupsOf({1, 1});
  std::swap(groups[0].expert, groups[1].expert);
  EXPECT_DEATH(PlanLayerCall(groups, shape, plan), "expert");
}

}  // namespace
}  // namespace numoe::worker
