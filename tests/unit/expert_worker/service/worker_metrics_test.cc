// What a worker reports about its experts, as metrics (for each layer) and through the control service (for
// each expert).
#include "expert_worker/service/worker_metrics.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <sstream>
#include <thread>
#include <vector>

#include "common/threading/thread_binding.h"
#include "expert_worker/experts/worker_home.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/numoe/v1/expert_worker.grpc.pb.h"
#include "tests/unit/expert_worker/experts/tiny_experts.h"

namespace numoe::worker {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class WorkerMetricsTest : public ::testing::Test {
 protected:
  WorkerMetricsTest() { Load(/*own=*/true); }
  // `own`: the CPUs belong to this worker and not to a coordinator.
  void Load(bool own) {
    const auto checkpoint = OpenCheckpoint(TinyTensors(MatrixFormat::kBF16), folder_);
    absl::StatusOr<Placement> home = FindHome({.threads = 1});
    NUMOE_CHECK(home.ok()) << home.status();
    home->own = own;
    absl::StatusOr<std::unique_ptr<ExpertExecutor>> executor =
        ExpertExecutor::Load(*checkpoint, TinyConfig(), {.home = *home, .progress = &progress_});
    NUMOE_CHECK(executor.ok()) << executor.status();
    executor_ = *std::move(executor);
  }
  // Every token to the same experts.
  void Call(int tokens, const std::vector<ExpertId>& experts) {
    std::vector<float> hidden(static_cast<size_t>(tokens) * kHidden, 0.5f), out(hidden.size());
    std::vector<ExpertId> all;
    for (int t = 0; t < tokens; ++t) all.insert(all.end(), experts.begin(), experts.end());
    const std::vector<float> weights(all.size(), 1.0f);
    const absl::Status status = executor_->Execute({.layer = kMoeLayer,
                                                    .tokens = tokens,
                                                    .experts_per_token = static_cast<int>(experts.size()),
                                                    .hidden = hidden,
                                                    .experts = all,
                                                    .weights = weights},
                                                   absl::MakeSpan(out));
    ASSERT_TRUE(status.ok()) << status;
  }

  TemporaryFolder folder_;
  LoadProgress progress_;
  std::unique_ptr<ExpertExecutor> executor_;
};

TEST_F(WorkerMetricsTest, MetricsSumUpByLayer) {
  Metrics metrics(MetricOwner::kWorker);
  ExportProgress(metrics, progress_);
  ExportExecutor(metrics, *executor_);
  EXPECT_THAT(metrics.Serialise(), HasSubstr("numoe_expert_call_tokens_count 0\n"));
  Call(3, {0, 4});
  Call(1, {4, 5});
  for (int scrape = 0; scrape < 2; ++scrape) {  // a second one counts nothing twice
    const std::string text = metrics.Serialise();
    EXPECT_THAT(text, HasSubstr("numoe_expert_rows_total{layer=\"1\"} 8\n"));
    EXPECT_THAT(text, Not(HasSubstr("layer=\"0\"")));
    EXPECT_THAT(text, Not(HasSubstr("expert=\"")));
    EXPECT_THAT(text, HasSubstr("numoe_expert_call_tokens_count 2\nnumoe_expert_call_tokens_sum 4\n"));
    EXPECT_THAT(text, HasSubstr("numoe_expert_call_tokens_bucket{le=\"1\"} 1\n"));
    EXPECT_THAT(text, HasSubstr("numoe_expert_call_tokens_bucket{le=\"4\"} 2\n"));
    EXPECT_THAT(
        text,
        HasSubstr("numoe_expert_rows_of_call_tokens_count 4\nnumoe_expert_rows_of_call_tokens_sum 8\n"));
    EXPECT_THAT(text, HasSubstr("numoe_expert_call_duration_seconds_count 2\n"));
    const size_t hottest = text.find("numoe_expert_hottest_ratio{layer=\"1\"} ");
    ASSERT_NE(hottest, std::string::npos);
    EXPECT_NEAR(std::stod(text.substr(text.find(' ', hottest))), 0.5, 1e-6)
        << "4 of 8, and none of them has decayed";
    EXPECT_THAT(text, HasSubstr("numoe_expert_calls_failed_total 0\n"));
  }
  // Each call needed two experts; a slice of all has every expert of the one MoE layer.
  const ExecutorStats stats = executor_->Stats();
  EXPECT_EQ(stats.weight_bytes_used, 2 * 2 * stats.weight_bytes / kExperts);
  EXPECT_THAT(metrics.Serialise(),
              HasSubstr("numoe_expert_weight_bytes_total " + std::to_string(stats.weight_bytes_used) + "\n"));
  ASSERT_FALSE(stats.nodes.empty());
  EXPECT_THAT(metrics.Serialise(),
              HasSubstr("numoe_worker_node{node=\"" + std::to_string(stats.nodes[0]) + "\"} 1\n"));
  EXPECT_GT(progress_.bytes_total(), 0u);
  EXPECT_THAT(metrics.Serialise(),
              HasSubstr("numoe_load_bytes_done " + std::to_string(progress_.bytes_total()) + "\n"));
}

TEST_F(WorkerMetricsTest, ThePlacementOfMemoryIsAbsentUntilItIsKnown) {
  Metrics metrics(MetricOwner::kWorker);
  PlacementMetrics places(metrics);
  const auto samples = [&] {
    std::vector<std::string> names;
    std::istringstream text(metrics.Serialise());
    for (std::string line; std::getline(text, line);) {
      for (const char* const name :
           {"numoe_weights_local_ratio", "numoe_weights_node_ratio", "numoe_mailbox_local_ratio"})
        if (line.rfind(name, 0) == 0) names.push_back(line);
    }
    return names;
  };
  EXPECT_THAT(samples(), ::testing::IsEmpty()) << "0 would be an alert while the worker loads";
  std::optional<double> mailboxes;
  places.Follow(*executor_, [&] { return mailboxes; });
  const ExecutorStats stats = executor_->Stats();
  const std::string node = std::to_string(stats.nodes.at(0));
  if (stats.local_share) {
    EXPECT_THAT(samples(), ElementsAre("numoe_weights_local_ratio 1",
                                       "numoe_weights_node_ratio{node=\"" + node + "\"} 1"));
  } else {
    EXPECT_THAT(samples(), ::testing::IsEmpty()) << "the kernel does not say";
  }
  mailboxes = 0.25;
  EXPECT_THAT(samples(), ::testing::Contains("numoe_mailbox_local_ratio 0.25"));
  mailboxes.reset();
  EXPECT_THAT(samples(), Not(::testing::Contains(HasSubstr("numoe_mailbox_local_ratio"))));
}

TEST_F(WorkerMetricsTest, TheShareOfHugePagesIsAbsentUntilItIsKnown) {
  Metrics metrics(MetricOwner::kWorker);
  PlacementMetrics places(metrics);
  ExportExecutor(metrics, *executor_);
  const std::string series = "\nnumoe_weights_huge_page_ratio ";
  EXPECT_THAT(metrics.Serialise(), Not(HasSubstr(series))) << "0 would mean that there are none";
  places.Follow(*executor_, [] { return std::nullopt; });
  const bool known = executor_->Stats().huge_page_share.has_value();
  EXPECT_EQ(metrics.Serialise().find(series) != std::string::npos, known);
}

TEST_F(WorkerMetricsTest, TheCallingThreadIsBoundAndCounted) {
  std::thread([&] {
    ASSERT_TRUE(executor_->Stats().pinned);
    const ScopedCaller caller(&executor_->Callers());
    EXPECT_EQ(CpusOfThisThread().size(), 1u) << "the CPU of the pool's thread 0";
    EXPECT_TRUE(executor_->Stats().pinned);
  }).join();
}

// Like on a desktop: every other CPU has a thread of the worker, so the coordinator tends to be on the first
// one.
TEST_F(WorkerMetricsTest, TheCallingThreadAvoidsTheCoordinatorOnSharedCpus) {
  Load(/*own=*/false);
  std::vector<int> cpus = FindHome({.threads = 1})->node_cpus;
  std::sort(cpus.begin(), cpus.end());
  std::thread([&] {
    const ScopedCaller caller(&executor_->Callers());
    EXPECT_EQ(CpusOfThisThread(), cpus);
    EXPECT_TRUE(executor_->Stats().pinned) << "it is where it should be";
  }).join();
}

TEST_F(WorkerMetricsTest, ThreadsFollowTheCpusThatAreLeft) {
  const int cpu = FindHome({.threads = 1})->node_cpus.back();
  executor_->MoveTo({cpu});
  std::thread([&] {
    const ScopedCaller caller(&executor_->Callers());
    EXPECT_THAT(CpusOfThisThread(), ElementsAre(cpu));
    EXPECT_EQ(executor_->Stats().threads, 1);
  }).join();
}

TEST_F(WorkerMetricsTest, TheControlServiceKnowsEveryExpert) {
  Call(3, {0, 4});
  const std::string address = "unix:" + (folder_.path() / "socket").string();
  const auto serve = [&](const ExpertStatistics* statistics) {
    return WorkerService::Start(*executor_, {.listen = address,
                                             .hidden_size = kHidden,
                                             .num_experts = kExperts,
                                             .experts_per_token = 2,
                                             .shared_memory = false,
                                             .statistics = statistics});
  };
  const auto ask = [&](v1::ExpertStatsReply& reply) {
    const auto stub =
        v1::ExpertWorker::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    return stub->GetExpertStats(&context, {}, &reply);
  };
  v1::ExpertStatsReply reply;
  {
    const auto service = serve(&executor_->Statistics());
    ASSERT_TRUE(service.ok()) << service.status();
    const grpc::Status status = ask(reply);
    ASSERT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_EQ(reply.layers(), 2);
  EXPECT_EQ(reply.experts(), kExperts);
  EXPECT_THAT(reply.rows(), ElementsAre(0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0));
  EXPECT_THAT(reply.calls(), ElementsAre(0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0));
  EXPECT_EQ(reply.half_life_seconds(), 600);
  ASSERT_EQ(reply.decayed_rows_size(), 12);
  EXPECT_GT(reply.decayed_rows(6), 2.5f);
  EXPECT_LE(reply.decayed_rows(6), 3.0f);
  const auto service = serve(nullptr);
  ASSERT_TRUE(service.ok()) << service.status();
  EXPECT_EQ(ask(reply).error_code(), grpc::StatusCode::UNIMPLEMENTED);
}

TEST(HottestShareTest, IsThatOfTheHottestEighth) {
  EXPECT_EQ(HottestShare({}), 0);
  EXPECT_EQ(HottestShare({0, 0, 0}), 0);
  EXPECT_EQ(HottestShare({1, 3, 0}), 0.75) << "at least one expert";
  EXPECT_THAT(HottestShare(std::vector<double>(16, 2)), DoubleEq(2.0 / 16));
}

}  // namespace
}  // namespace numoe::worker
