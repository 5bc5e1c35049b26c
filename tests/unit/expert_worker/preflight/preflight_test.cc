// Preflight on made-up file trees: each bad setting is found with its advice, good and absent ones are not.
#include "expert_worker/preflight/preflight.h"

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PreflightTest : public ::testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path full = std::filesystem::path(folder_.path()) / path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text << "\n";
  }
  std::string Bad() const {
    std::vector<Finding> bad;
    for (Finding& f : CheckSettings(folder_.path())) {
      EXPECT_EQ(f.good, f.advice.empty()) << f.what;
      if (!f.good) bad.push_back(std::move(f));
    }
    return ToString(bad);
  }
  TemporaryFolder folder_;
};

TEST_F(PreflightTest, NothingIsSaidOfFilesThatAreNotThere) {
  EXPECT_THAT(CheckSettings(folder_.path()), IsEmpty());
}

TEST_F(PreflightTest, GoodSettingsAreGood) {
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  Write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance");
  Write("sys/fs/cgroup/cpu.max", "max 100000");
  Write("proc/swaps", "Filename Type Size Used Priority");
  Write("proc/sys/kernel/numa_balancing", "1");  // one node: nothing to move
  EXPECT_EQ(Bad(), "");
  EXPECT_EQ(CheckSettings(folder_.path()).size(), 2u);
}

TEST_F(PreflightTest, BadSettingsAreFoundWithAdvice) {
  Write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]");
  for (const char* cpu : {"cpu0", "cpu1"})
    Write(std::string("sys/devices/system/cpu/") + cpu + "/cpufreq/scaling_governor", "powersave");
  Write("sys/fs/cgroup/cpu.max", "350000 100000");
  Write("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2");
  Write("proc/sys/kernel/numa_balancing", "1");
  std::filesystem::create_directories(std::filesystem::path(folder_.path()) /
                                      "sys/devices/system/node/node1");
  const std::string bad = Bad();
  for (const char* needle :
       {"[never]", "2 CPUs: powersave", "3.50 CPUs", "1 swap devices", "numa_balancing is 1"})
    EXPECT_THAT(bad, HasSubstr(needle));
}

TEST(PreflightOfThisMachineTest, NamesNodesAndInstructionSets) {
  const std::string text = ToString(Preflight());
  EXPECT_THAT(text, HasSubstr("node "));
  EXPECT_THAT(text, HasSubstr("scalar yes"));
}

}  // namespace
}  // namespace numoe
