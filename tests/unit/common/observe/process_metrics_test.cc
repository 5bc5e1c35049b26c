// What the kernel reports about this process, and about a made-up one.
#include "common/observe/process_metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <ctime>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

TEST(ProcessMetricsTest, FieldsAreThoseAfterTheName) {
  const std::string stat =
      "42 (a) b (c) S 1 42 42 0 -1 4194304 9 0 0 0 150 50 0 0 20 0 7 0 1000 8192000 25 18446744073709551615 "
      "1";
  const ProcessUse use = ReadStat(stat, 1e9);
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  EXPECT_EQ(use.cpu_s, 200 / ticks);
  EXPECT_EQ(use.start_s, 1e9 + 1000 / ticks);
  EXPECT_EQ(use.virtual_bytes, 8192000);
  EXPECT_EQ(use.resident_bytes, 25 * static_cast<double>(sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(ReadStat(stat, std::nullopt).start_s, std::nullopt);
}

TEST(ProcessMetricsTest, UnknownValuesAreAbsent) {
  for (const char* stat :
       {"", "42 (name", "42 (name) S 1", "42 (x) S 1 1 1 0 -1 4 9 0 0 0 a b 0 0 20 0 7 0 z 8 c"}) {
    const ProcessUse use = ReadStat(stat, 1e9);
    EXPECT_FALSE(use.cpu_s || use.start_s || use.resident_bytes) << stat;
  }
}

TEST(ProcessMetricsTest, ThisProcessHasAllValues) {
  const ProcessUse before = ReadOwnUse();
  ASSERT_TRUE(before.cpu_s && before.start_s && before.resident_bytes && before.virtual_bytes &&
              before.open_files && before.open_files_max);
  EXPECT_GT(*before.resident_bytes, 1 << 20);
  EXPECT_GE(*before.virtual_bytes, *before.resident_bytes);
  EXPECT_LE(*before.start_s, static_cast<double>(std::time(nullptr)) + 1);
  EXPECT_GT(*before.start_s, 1.5e9);
  const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  const ProcessUse after = ReadOwnUse();
  close(fd);
  EXPECT_EQ(*after.open_files, *before.open_files + 1);
  EXPECT_EQ(after.start_s, before.start_s);
  EXPECT_GE(*after.cpu_s, *before.cpu_s);
  EXPECT_LE(*after.open_files, *after.open_files_max);
}

TEST(ProcessMetricsTest, EveryDaemonServesThem) {
  for (const MetricOwner daemon : {MetricOwner::kCoordinator, MetricOwner::kWorker, MetricOwner::kRouter}) {
    const std::string text = Metrics(daemon).Serialise();
    for (const char* metric : {"cpu_seconds_total", "max_fds", "open_fds", "resident_memory_bytes",
                               "start_time_seconds", "virtual_memory_bytes"})
      EXPECT_THAT(text, HasSubstr("\nprocess_" + std::string(metric) + " "));
  }
}

}  // namespace
}  // namespace numoe
