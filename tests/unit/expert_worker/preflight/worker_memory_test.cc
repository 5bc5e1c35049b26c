// The error of a worker that lacks memory, and that its reservation is seen by the next process.
#include "expert_worker/preflight/worker_memory.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint64_t kGib = 1ull << 30;
constexpr char kOthers[] =
    "of 31.50 GiB that are free 20.00 GiB are reserved by numoe-coordinator, process 7";

TEST(WorkerMemoryTest, AnExactFitIsAccepted) {
  const WorkerNeeds needs{.weight_bytes = 8 * kGib};
  EXPECT_TRUE(CheckWorkerMemory(needs, needs.total(), "").ok());
  EXPECT_FALSE(CheckWorkerMemory(needs, needs.total() - 1, "").ok());
}

TEST(WorkerMemoryTest, ARefusalNamesTheOtherProcessesAndWhatFits) {
  const absl::Status status =
      CheckWorkerMemory({.weight_bytes = 18 * kGib, .worker_count = 2}, 12 * kGib, kOthers);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  const std::string text(status.message());
  EXPECT_THAT(text,
              HasSubstr("12.00 GiB are available to this process (of 31.50 GiB that are free 20.00 GiB are "
                        "reserved by numoe-coordinator, process 7)"));
  EXPECT_THAT(text, HasSubstr("takes 18.25 GiB: weights 18.00 GiB, buffers 256.0 MiB"));
  EXPECT_THAT(text, HasSubstr("; end or shrink the processes named above, or "));
  EXPECT_THAT(text, HasSubstr("--format=int8 or int4"));
  EXPECT_THAT(text, HasSubstr("--worker-count=4 fits here (now 2)"));
  EXPECT_TRUE(CheckWorkerMemory({.weight_bytes = 9 * kGib, .worker_count = 4}, 12 * kGib, kOthers).ok());
}

TEST(WorkerMemoryTest, IfNoSliceFitsNoneIsNamed) {
  for (const uint64_t available : {uint64_t{0}, kWorkerBytesBesideWeights, kWorkerBytesBesideWeights + 1}) {
    const std::string text(CheckWorkerMemory({.weight_bytes = kGib}, available, "").message());
    EXPECT_THAT(text, HasSubstr("; free memory"));
    EXPECT_THAT(text, Not(HasSubstr("--worker-count")));
    EXPECT_THAT(text, Not(HasSubstr("--format")));
    EXPECT_THAT(text, Not(HasSubstr("--no-shared-memory"))) << "there is no mailbox to do without";
  }
}

TEST(WorkerMemoryTest, EachFlagIsNamedIfItIsEnough) {
  constexpr uint64_t kMailbox = uint64_t{448} << 20;
  const WorkerNeeds last{.weight_bytes = 8 * kGib, .worker_count = 64, .mailbox_bytes = kMailbox};
  const auto refusal = [](const WorkerNeeds& needs, uint64_t available) {
    return std::string(CheckWorkerMemory(needs, available, kOthers).message());
  };
  const std::string by_format = refusal(last, 4 * kGib);
  EXPECT_THAT(by_format, HasSubstr("--format=int8 or int4"));
  EXPECT_THAT(by_format, Not(HasSubstr("--worker-count="))) << "there are no more than 64";
  EXPECT_THAT(by_format, Not(HasSubstr("--no-shared-memory")));
  EXPECT_THAT(refusal(last, last.total() - kMailbox), HasSubstr("--no-shared-memory"));
  const WorkerNeeds one{.weight_bytes = 8 * kGib, .mailbox_bytes = kMailbox};
  const std::string by_count = refusal(one, kGib + one.beside());
  EXPECT_THAT(by_count, HasSubstr("--worker-count=8 fits here (now 1)"));
  EXPECT_THAT(by_count, Not(HasSubstr("--format")));
}

TEST(WorkerMemoryTest, PackedModelsHaveToBePackedAgain) {
  const WorkerNeeds packed{.weight_bytes = 8 * kGib, .packed = true};
  const std::string text(CheckWorkerMemory(packed, 4 * kGib, "").message());
  EXPECT_THAT(text, HasSubstr("pack the model again in a smaller format"));
  EXPECT_THAT(text, HasSubstr("with the model packed for them: the slice of --worker-count=3"));
  EXPECT_THAT(text, Not(HasSubstr("--format")));
}

TEST(WorkerMemoryTest, WorkersOfOneHostAreComparedTogether) {
  const WorkerNeeds needs{.weight_bytes = 9 * kGib, .worker_count = 2};
  const Finding fits = CompareWorkerMemory({needs, needs}, 2 * needs.total(), "");
  EXPECT_TRUE(fits.good);
  EXPECT_EQ(fits.advice, "");
  EXPECT_THAT(fits.what, HasSubstr("18.50 GiB are available to this process, its 2 workers take 18.50 GiB: "
                                   "weights 18.00 GiB, buffers 512.0 MiB, mailboxes 0.0 MiB"));
  const Finding lacks = CompareWorkerMemory({needs, needs}, 12 * kGib, "");
  EXPECT_FALSE(lacks.good);
  EXPECT_THAT(lacks.advice, HasSubstr("--worker-count=4 fits here (now 2)"));
}

TEST(WorkerMemoryTest, AvailableMemoryIsReservedAndMissingMemoryRefused) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "proc");
  std::ofstream(folder.path() / "proc/meminfo") << "MemAvailable: 4194304 kB\n";
  const std::string reservations = (folder.path() / "reservations").string();
  const auto reserve = [&](uint64_t weight_bytes) {
    return ReserveWorkerMemory({.weight_bytes = weight_bytes}, reservations, "test-worker", folder.path());
  };
  const auto files = [&] {
    const std::filesystem::directory_iterator all(reservations);
    return std::distance(begin(all), end(all));
  };
  EXPECT_EQ(reserve(4 * kGib).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(files(), 0);
  const absl::StatusOr<MemoryReservation> reservation = reserve(3 * kGib);
  ASSERT_TRUE(reservation.ok()) << reservation.status();
  EXPECT_EQ(files(), 1);
}

TEST(WorkerMemoryTest, TheMailboxOfTheSessionThatIsPlannedCounts) {
  constexpr uint64_t kMailbox = uint64_t{448} << 20;
  const WorkerNeeds needs{.weight_bytes = uint64_t{1} << 30, .mailbox_bytes = kMailbox};
  EXPECT_TRUE(CheckWorkerMemory(needs, needs.total(), "").ok());
  EXPECT_EQ(needs.total(), (uint64_t{1} << 30) + kWorkerBytesBesideWeights + kMailbox);
  EXPECT_THAT(CheckWorkerMemory(needs, needs.total() - 1, "").ToString(), HasSubstr("mailbox "));
}

}  // namespace
}  // namespace numoe::worker
