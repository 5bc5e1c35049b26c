// Weights of lost workers are unmapped as soon as no step uses them, and never during a call.
#include "coordinator/execution/transport/deferred_unmapper.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#include "common/topology/node_memory.h"
#include "gtest/gtest.h"

namespace numoe::execution {
namespace {

// An object that pins memory for a device; its destructor takes long.
struct SlowPins {
  std::atomic<bool>& begun;
  std::atomic<bool>& may_end;
  ~SlowPins() {
    begun = true;
    may_end.wait(false);
  }
};

class DeferredUnmapperTest : public ::testing::Test {
 protected:
  // Returns memory that is in use and pinned.
  std::shared_ptr<ExpertMemory> InUse(std::shared_ptr<void> pins = std::make_shared<int>(7)) {
    const NodeMemory memory = *NodeMemory::Allocate(kMappedLayerAlignment, {.shared = true});
    EXPECT_TRUE(memory.SealContent().ok());
    MappedWeights directory{.bytes = memory.size(), .width = 64, .first = 0};
    directory.layers.push_back(
        {.layer = 0, .offset = 0, .expert_bytes = 4096, .up_format = "bf16", .down_format = "bf16"});
    auto mapped =
        ExpertMemory::Map(FileDescriptor(dup(memory.fd())), std::move(directory), {.num_experts = 2});
    EXPECT_TRUE(mapped.ok()) << mapped.status();
    EXPECT_TRUE((*mapped)->BeginUse());
    (*mapped)->Pin(std::move(pins));
    return *std::move(mapped);
  }
  static void AwaitUnpinned(const ExpertMemory& memory) {
    while (memory.pinned()) std::this_thread::yield();
  }
};

TEST_F(DeferredUnmapperTest, MemoryIsUnmappedWhenItIsNotInUse) {
  DeferredUnmapper unmapper;
  const auto used = InUse(), unused = InUse();
  unused->EndUse();
  unmapper.Add(used);
  unmapper.Add(unused);
  AwaitUnpinned(*unused);
  EXPECT_TRUE(used->pinned()) << "a step is using it";
  used->EndUse();
  AwaitUnpinned(*used);
  EXPECT_FALSE(used->BeginUse());
}

TEST_F(DeferredUnmapperTest, NothingIsUnmappedWhileTheUnmapperIsHeld) {
  DeferredUnmapper unmapper;
  for (int call = 0; call < 3; ++call) {
    const auto memory = InUse();
    memory->EndUse();
    unmapper.Hold();
    unmapper.Add(memory);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the thread tries many times
    EXPECT_TRUE(memory->pinned());
    unmapper.Allow();
    unmapper.Allow();  // as at the end of a deferred reply
    AwaitUnpinned(*memory);
  }
}

TEST_F(DeferredUnmapperTest, HoldWaitsForUnmappingThatHasBegun) {
  DeferredUnmapper unmapper;
  std::atomic<bool> begun{false}, may_end{false}, held{false};
  const auto memory = InUse(std::shared_ptr<SlowPins>(new SlowPins{begun, may_end}));
  memory->EndUse();
  unmapper.Add(memory);
  while (!begun) std::this_thread::yield();
  std::thread caller([&] {
    unmapper.Hold();
    held = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(held);
  may_end = true;
  may_end.notify_all();
  caller.join();
  EXPECT_FALSE(memory->pinned());
}

TEST_F(DeferredUnmapperTest, TheUnmapperEndsAlthoughMemoryIsInUse) {
  const auto memory = InUse();
  {
    DeferredUnmapper unmapper;
    unmapper.Add(memory);
  }
  EXPECT_TRUE(memory->pinned());
  memory->EndUse();
}

}  // namespace
}  // namespace numoe::execution
