// Weights that a worker shares: the coordinator maps the bytes that the worker holds, wrong directories are
// refused, and the memory of a lost worker is unmapped as soon as it is not in use.
#include "coordinator/execution/transport/expert_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "common/topology/node_memory.h"
#include "coordinator/execution/transport/expert_fan_out.h"
#include "expert_worker/service/worker_service.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

using ::testing::HasSubstr;

constexpr int kExperts = 5;
constexpr uint64_t kExpertBytes = 4096;
constexpr int64_t kPatienceMs = 120'000;

MappedWeights Directory() {
  return {
      .bytes = 2 * kMappedLayerAlignment,
      .width = 64,
      .first = 128,
      .layers = {
          {.layer = 1, .offset = 0, .expert_bytes = kExpertBytes, .up_format = "int4", .down_format = "fp8"},
          {.layer = 4,
           .offset = kMappedLayerAlignment,
           .expert_bytes = 2 * kExpertBytes,
           .up_format = "bf16",
           .down_format = "bf16"}}};
}

class ExpertMemoryTest : public ::testing::Test {
 protected:
  ExpertMemoryTest() : memory_(*NodeMemory::Allocate(Directory().bytes, {.shared = true})) {
    std::mt19937 random(1);
    for (size_t i = 0; i < memory_.size(); i += 512) memory_.data()[i] = static_cast<std::byte>(random());
    EXPECT_TRUE(memory_.SealContent().ok());
  }
  absl::StatusOr<std::shared_ptr<ExpertMemory>> Map(MappedWeights directory, bool by_expert = false) {
    return ExpertMemory::Map(
        FileDescriptor(dup(memory_.fd())), std::move(directory),
        {.by_expert = by_expert, .worker_index = 1, .worker_count = 2, .num_experts = kExperts});
  }
  NodeMemory memory_;
};

TEST_F(ExpertMemoryTest, ALayersBytesEqualTheWorkersBytes) {
  for (const bool by_expert : {false, true}) {
    const auto mapped = Map(Directory(), by_expert);
    ASSERT_TRUE(mapped.ok()) << mapped.status();
    ASSERT_TRUE((*mapped)->BeginUse());
    for (const MappedLayer& layer : (*mapped)->directory().layers) {
      const auto bytes = (*mapped)->Bytes(layer);
      ASSERT_EQ(bytes.size(), layer.expert_bytes * (by_expert ? 2 : kExperts));  // experts 1 and 3 of 5
      EXPECT_EQ(std::memcmp(bytes.data(), memory_.data() + layer.offset, bytes.size()), 0);
    }
  }
}

TEST_F(ExpertMemoryTest, WrongDirectoriesAreRefused) {
  const auto error = [&](auto change) {
    MappedWeights directory = Directory();
    change(directory);
    return Map(std::move(directory)).status();
  };
  for (const absl::Status& status :
       {error([](MappedWeights& d) { d.bytes *= 2; }), error([](MappedWeights& d) { d.layers.clear(); }),
        error([](MappedWeights& d) { d.layers[0].offset = 4096; }),
        error([](MappedWeights& d) { d.layers[1].offset = 2 * kMappedLayerAlignment; }),
        error([](MappedWeights& d) {
          d.layers[1].offset = UINT64_MAX / 2 / kMappedLayerAlignment * kMappedLayerAlignment;
        }),
        error([](MappedWeights& d) { d.layers[0].expert_bytes = UINT64_MAX / 3; }),
        error([](MappedWeights& d) { d.layers[0].expert_bytes = 0; }),
        error([](MappedWeights& d) { d.layers[1].layer = 1; }),
        error([](MappedWeights& d) { d.layers[1].layer = 1 << 30; }),
        error([](MappedWeights& d) { d.layers[0].layer = -1; }),
        error([](MappedWeights& d) { d.width = 0; })}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("mapped weights"));
  }
}

// The coordinator maps only the bytes of the layers, and nothing after them.
TEST_F(ExpertMemoryTest, MemoryBeyondItsLayersIsRefused) {
  const NodeMemory large = *NodeMemory::Allocate(uint64_t{64} << 20, {.shared = true});
  ASSERT_TRUE(large.SealContent().ok());
  for (const uint64_t bytes : {large.size(), Directory().bytes - 4096, uint64_t{1} << 60, UINT64_MAX}) {
    MappedWeights directory = Directory();
    directory.bytes = bytes;
    const absl::Status refused =
        ExpertMemory::Map(FileDescriptor(dup(large.fd())), directory, {.num_experts = kExperts}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  }
}

TEST_F(ExpertMemoryTest, MemoryThatOthersCouldWriteOrShrinkIsRefused) {
  const auto refused = [](int fd) {
    const absl::Status status =
        ExpertMemory::Map(FileDescriptor(fd), Directory(), {.num_experts = kExperts}).status();
    EXPECT_THAT(status.ToString(), HasSubstr("that cannot shrink and that only the worker can write to"));
    return absl::IsInvalidArgument(status);
  };
  EXPECT_TRUE(refused(open("/dev/null", O_RDONLY | O_CLOEXEC)));
  const NodeMemory unsealed = *NodeMemory::Allocate(Directory().bytes, {.shared = true});
  EXPECT_TRUE(refused(dup(unsealed.fd())));
  // A file of the expected size that has no seals.
  const std::string path = ::testing::TempDir() + "/experts-file-" + std::to_string(getpid());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(ftruncate(file, static_cast<off_t>(Directory().bytes)), 0);
  EXPECT_TRUE(refused(file));
  unlink(path.c_str());
}

TEST_F(ExpertMemoryTest, MemoryIsUnmappedOnlyWhileItIsNotInUse) {
  const auto memory = *Map(Directory());
  const auto pins = std::make_shared<int>(7);
  ASSERT_TRUE(memory->BeginUse());
  memory->Pin(pins);
  EXPECT_EQ(pins.use_count(), 2);
  EXPECT_FALSE(memory->Unmap());
  memory->EndUse();
  EXPECT_TRUE(memory->pinned());
  EXPECT_TRUE(memory->Unmap());
  EXPECT_EQ(pins.use_count(), 1);
  EXPECT_FALSE(memory->BeginUse());
}

class NoWork final : public LayerExecutor {
 public:
  absl::Status Execute(const LayerCallView&, absl::Span<float>) override { return absl::OkStatus(); }
};

class SharedWorkerTest : public ExpertMemoryTest {
 protected:
  void Serve(int fd) {
    service_.reset();
    auto service = worker::WorkerService::Start(executor_, {.listen = address_,
                                                            .hidden_size = 64,
                                                            .num_experts = kExperts,
                                                            .experts_per_token = 2,
                                                            .mapped_weights = Directory(),
                                                            .experts_fd = fd});
    ASSERT_TRUE(service.ok()) << service.status();
    service_ = *std::move(service);
  }
  std::unique_ptr<ExpertFanOut> Connect(DataPath path, bool map_experts) {
    auto workers = ExpertFanOut::Connect(
        {.addresses = {address_},
         .link = {.data_path = path, .hidden_size = 64, .num_experts = kExperts, .map_experts = map_experts},
         .start_deadline_ms = kPatienceMs},
        metrics_);
    EXPECT_TRUE(workers.ok()) << workers.status();
    return *std::move(workers);
  }
  const std::string address_ = "unix:" + ::testing::TempDir() + "/experts-" + std::to_string(getpid());
  NoWork executor_;
  Metrics metrics_{MetricOwner::kCoordinator};
  std::unique_ptr<worker::WorkerService> service_;
};

TEST_F(SharedWorkerTest, ACoordinatorThatRequestsTheWeightsMapsThem) {
  Serve(memory_.fd());
  const auto workers = Connect(DataPath::kSharedMemory, /*map_experts=*/true);
  const auto mapped = workers->MappedExperts();
  ASSERT_EQ(mapped.size(), 1u);
  EXPECT_EQ(mapped[0]->directory(), Directory());
  ASSERT_TRUE(mapped[0]->BeginUse());
  const auto bytes = mapped[0]->Bytes(Directory().layers[1]);
  EXPECT_EQ(std::memcmp(bytes.data(), memory_.data() + kMappedLayerAlignment, bytes.size()), 0);
  mapped[0]->EndUse();
}

TEST_F(SharedWorkerTest, WeightsAreNotMappedIfNotRequestedNotSharedOrOverGrpc) {
  Serve(memory_.fd());
  EXPECT_TRUE(Connect(DataPath::kSharedMemory, false)->MappedExperts().empty());
  EXPECT_TRUE(Connect(DataPath::kGrpc, true)->MappedExperts().empty());
  Serve(-1);
  EXPECT_TRUE(Connect(DataPath::kSharedMemory, true)->MappedExperts().empty());
}

// Unpinning waits for the device, and the device for a release by the same thread.
TEST_F(SharedWorkerTest, MemoryIsNotUnmappedWhileADeviceWaitsForReplies) {
  Serve(memory_.fd());
  const auto workers = Connect(DataPath::kSharedMemory, /*map_experts=*/true);
  const auto mapped = workers->MappedExperts();
  ASSERT_EQ(mapped.size(), 1u);
  ASSERT_TRUE(mapped[0]->BeginUse());
  mapped[0]->Pin(std::make_shared<int>(7));
  mapped[0]->EndUse();
  std::atomic<uint32_t> release{0};
  ASSERT_TRUE(workers->BeginDirect(&release).ok());
  service_.reset();
  while (release.load() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));  // the unmapper tries many times
  EXPECT_TRUE(mapped[0]->pinned());
  EXPECT_TRUE(absl::IsUnavailable(workers->EndDirect(0, 0, absl::UnavailableError("it waited in vain"))));
  while (mapped[0]->pinned()) std::this_thread::yield();
}

TEST_F(SharedWorkerTest, ARestartedWorkerIsMappedAgainAndTheOldMemoryIsUnmapped) {
  Serve(memory_.fd());
  const auto workers = Connect(DataPath::kSharedMemory, /*map_experts=*/true);
  const auto before = workers->MappedExperts();
  ASSERT_EQ(before.size(), 1u);
  ASSERT_TRUE(before[0]->BeginUse());
  const auto pins = std::make_shared<int>(7);
  before[0]->Pin(pins);
  service_.reset();
  while (workers->Ready()) std::this_thread::yield();
  EXPECT_TRUE(workers->MappedExperts().empty());
  EXPECT_EQ(before[0]->Bytes(Directory().layers[0])[0], memory_.data()[0]);  // a step is still running
  const NodeMemory other = *NodeMemory::Allocate(Directory().bytes, {.shared = true});
  std::memset(other.data(), 99, other.size());
  ASSERT_TRUE(other.SealContent().ok());
  Serve(other.fd());
  ASSERT_TRUE(workers->AwaitReady(kPatienceMs).ok());
  const auto after = workers->MappedExperts();
  ASSERT_EQ(after.size(), 1u);
  EXPECT_NE(after[0], before[0]);
  ASSERT_TRUE(after[0]->BeginUse());
  EXPECT_EQ(after[0]->Bytes(Directory().layers[0])[0], std::byte{99});
  after[0]->EndUse();
  before[0]->EndUse();
  while (before[0]->pinned()) std::this_thread::yield();
  EXPECT_EQ(pins.use_count(), 1);
  EXPECT_FALSE(before[0]->BeginUse());
}

}  // namespace
}  // namespace numoe::execution
