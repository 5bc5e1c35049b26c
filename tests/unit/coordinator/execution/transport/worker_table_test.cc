// The state of the workers: when to connect again to one that is down, which sessions a call gets, and when
// other numeric formats are accepted.
#include "coordinator/execution/transport/worker_table.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

// A session with an identity that is never used for communication.
class SilentLink final : public WorkerLink {
 public:
  explicit SilentLink(WorkerIdentity identity) : identity_(std::move(identity)) {}
  const WorkerIdentity& identity() const override { return identity_; }
  absl::Status Send(uint64_t, const LayerCallView&) override { return Unasked(); }
  absl::Status Receive(uint64_t, ReplyPart, int64_t, absl::Span<float>) override { return Unasked(); }
  absl::StatusOr<ExpertRows> CountedRows(int64_t) override { return Unasked(); }
  absl::Status Alive() override { return Unasked(); }
  void Abort() override { ADD_FAILURE(); }

 private:
  static absl::Status Unasked() {
    ADD_FAILURE() << "the table must not communicate with a worker";
    return absl::InternalError("the table must not call this");
  }
  const WorkerIdentity identity_;
};

absl::StatusOr<std::shared_ptr<WorkerLink>> Slice(int index, std::string numeric_formats = "bf16") {
  return std::make_shared<SilentLink>(WorkerIdentity{
      .worker_index = index, .worker_count = 2, .numeric_formats = std::move(numeric_formats)});
}

class WorkerTableTest : public ::testing::Test {
 protected:
  // Returns the time until the next attempt to connect to worker 0.
  milliseconds Wait() const { return std::chrono::duration_cast<milliseconds>(*table_.ConnectAt(0) - now_); }
  void Fail() { table_.Answered(0, absl::UnavailableError("it does not answer"), now_); }
  // Returns worker 0's session. REQUIRES: every worker has one.
  WorkerSession First() { return table_.ForCall().value()[0]; }

  Metrics metrics_{MetricOwner::kCoordinator};
  WorkerTable table_{{"a", "b"}, metrics_};
  WorkerTable::Time now_ = std::chrono::steady_clock::now();
};

TEST_F(WorkerTableTest, TheIntervalsOfAttemptsToConnectGrow) {
  EXPECT_LE(*table_.ConnectAt(0), now_) << "the first attempt is made at once";
  for (const int expected : {5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000}) {
    Fail();
    EXPECT_EQ(Wait().count(), expected);
    now_ = *table_.ConnectAt(0);
  }
  EXPECT_THAT(table_.Missing(),
              AllOf(HasSubstr("worker a (it does not answer)"), HasSubstr("worker b (not con")));
}

TEST_F(WorkerTableTest, OnlyALoadThatAdvancesCountsAsProgress) {
  const auto loads = [&](std::string moves) {
    absl::Status status = absl::UnavailableError("it loads its weights");
    status.SetPayload(kMovesOfLoad, absl::Cord(moves));
    table_.Answered(0, status, now_);
  };
  Fail();
  EXPECT_EQ(table_.MovedAt(), std::nullopt) << "no worker has been seen yet";
  loads("0");
  EXPECT_EQ(table_.MovedAt(), now_) << "a worker that loads was seen";
  const WorkerTable::Time before = now_;
  now_ += milliseconds(50);
  loads("0");
  EXPECT_EQ(table_.MovedAt(), before);
  loads("7");
  EXPECT_EQ(table_.MovedAt(), now_);
  now_ += milliseconds(50);
  loads("2");
  EXPECT_EQ(table_.MovedAt(), now_) << "another process has begun to load";
  now_ += milliseconds(50);
  Fail();
  EXPECT_NE(table_.MovedAt(), now_);
  table_.Answered(0, Slice(0), now_);
  EXPECT_EQ(table_.MovedAt(), now_) << "it is up";
}

TEST_F(WorkerTableTest, AfterASessionThatLastedTheNextAttemptIsSoon) {
  table_.Answered(1, Slice(1), now_);
  for (int i = 0; i < 4; ++i) Fail();
  table_.Answered(0, Slice(0), now_);
  EXPECT_EQ(table_.ConnectAt(0), std::nullopt) << "it has a session";
  now_ += milliseconds(10);
  EXPECT_TRUE(table_.EndSession(First(), absl::UnavailableError("it is gone"), now_));
  EXPECT_EQ(Wait().count(), 80) << "the session did not last";
  table_.Answered(0, Slice(0), now_);
  now_ += kRetryMax + milliseconds(1);
  EXPECT_TRUE(table_.EndSession(First(), absl::UnavailableError("it is gone"), now_));
  EXPECT_EQ(Wait().count(), 5) << "the session lasted";
  EXPECT_EQ(metrics_.With(CounterId::kWorkerLost, {"a"}).Value(), 2);
}

TEST_F(WorkerTableTest, ASessionEndsOnce) {
  for (const int i : {0, 1}) table_.Answered(static_cast<size_t>(i), Slice(i), now_);
  EXPECT_EQ(metrics_.With(GaugeId::kWorkerUp, {"a"}).Value(), 1);
  const WorkerSession old = First();
  EXPECT_TRUE(table_.EndSession(old, absl::UnavailableError("it is gone"), now_));
  EXPECT_FALSE(table_.EndSession(old, absl::UnavailableError("seen by another thread"), now_));
  table_.Answered(0, Slice(0), now_);
  EXPECT_FALSE(table_.EndSession(old, absl::UnavailableError("seen late"), now_))
      << "there is another session now";
  EXPECT_TRUE(table_.AllUp());
  EXPECT_EQ(metrics_.With(CounterId::kWorkerLost, {"a"}).Value(), 1);
}

TEST_F(WorkerTableTest, ACallGetsAllSessionsInSliceOrderOrNone) {
  table_.Answered(0, Slice(1), now_);
  EXPECT_THAT(table_.ForCall().status().ToString(), HasSubstr("a slice of the experts is missing: worker b"));
  EXPECT_EQ(table_.Live().size(), 1u);
  table_.Answered(1, Slice(0), now_);
  const auto sessions = table_.ForCall();
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  ASSERT_EQ(sessions->size(), 2u);
  for (size_t slice = 0; slice < 2; ++slice) {
    EXPECT_EQ((*sessions)[slice].worker, 1 - slice);
    EXPECT_EQ((*sessions)[slice].link->identity().worker_index, static_cast<int>(slice));
  }
  EXPECT_TRUE(table_.MappedExperts().empty()) << "the workers do not share their weights";
}

TEST_F(WorkerTableTest, ARefusalIsReportedUntilTheWorkerFits) {
  table_.Answered(0, Slice(0), now_);
  table_.Answered(1, Slice(0), now_);
  EXPECT_THAT(table_.Refusal().ToString(), AllOf(HasSubstr("worker b"), HasSubstr("serves already")));
  EXPECT_TRUE(absl::IsFailedPrecondition(table_.Refusal()));
  EXPECT_EQ(*table_.ConnectAt(1) - now_, kRefusedInterval);
  table_.Answered(1, absl::UnavailableError("it does not answer"), now_);
  EXPECT_TRUE(table_.Refusal().ok()) << "the worker is only down now";
  table_.Answered(1, Slice(1), now_);
  EXPECT_TRUE(table_.AllUp());
}

// During an answer no worker with other numeric formats is accepted. Between answers all workers may change
// them, one after another, and the next call fails until the change is consumed.
TEST_F(WorkerTableTest, OtherNumericFormatsAreAcceptedBetweenAnswersAndMustBeConsumed) {
  for (const int i : {0, 1}) table_.Answered(static_cast<size_t>(i), Slice(i), now_);
  const auto sessions = table_.ForCall();
  ASSERT_TRUE(sessions.ok()) << sessions.status();
  for (const WorkerSession& session : *sessions)
    table_.EndSession(session, absl::UnavailableError("gone"), now_);
  table_.Answered(0, Slice(0, "int8"), now_);
  EXPECT_THAT(table_.Refusal().ToString(), HasSubstr("it computes with int8, expected bf16"));
  table_.OnIdle();
  table_.Answered(0, Slice(0, "int8"), now_);
  table_.Answered(1, Slice(1, "int8"), now_);
  EXPECT_TRUE(table_.Refusal().ok()) << table_.Refusal();
  EXPECT_THAT(table_.ForCall().status().ToString(),
              HasSubstr("compute in other numeric formats than those before"));
  EXPECT_TRUE(table_.ConsumeFormatChange());
  EXPECT_FALSE(table_.ConsumeFormatChange());
  EXPECT_TRUE(table_.ForCall().ok());
}

}  // namespace
}  // namespace numoe::execution
