// What limits a home: quotas of made-up trees.
#include "expert_worker/experts/worker_home.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

class QuotaTest : public ::testing::Test {
 protected:
  int Threads(const std::string& quota, int asked = 0) {
    folder_.WriteLine("proc/self/status", "Cpus_allowed_list:\t0-3");
    folder_.WriteLine("sys/fs/cgroup/cpu.max", quota);
    return LimitByQuota({.threads = asked}, folder_.path()).threads_max;
  }
  TemporaryFolder folder_;
};

TEST_F(QuotaTest, LeavesWholeThreads) {
  EXPECT_EQ(Threads("250000 100000"), 2);
  EXPECT_EQ(Threads("50000 100000"), 1) << "one at least";
  EXPECT_EQ(Threads("max 100000"), 0);
  EXPECT_EQ(Threads("400000 100000"), 0) << "as many CPUs' time as there are CPUs";
  EXPECT_EQ(Threads("100000000 1000"), 0);
  EXPECT_EQ(Threads("250000 100000", 3), 0) << "who asks for threads gets them";
}

}  // namespace
}  // namespace numoe::worker
