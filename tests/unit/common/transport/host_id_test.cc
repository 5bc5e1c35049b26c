// The host's id comes from the kernel and is the same for every process.
#include "common/transport/host_id.h"

#include <sys/wait.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

TEST(HostIdTest, ItIsAnIdWithoutALineEnd) {
  const std::string id = HostId();
  if (access("/proc/sys/kernel/random/boot_id", R_OK) != 0) {
    EXPECT_EQ(id, "");
    return;
  }
  EXPECT_THAT(id, ::testing::MatchesRegex("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
}

TEST(HostIdTest, AnotherProcessHasTheSame) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const std::string id = HostId();
    _exit(write(ends[1], id.data(), id.size()) == static_cast<ssize_t>(id.size()) ? 0 : 1);
  }
  close(ends[1]);
  char text[100];
  const ssize_t size = read(ends[0], text, sizeof text);
  close(ends[0]);
  int status = 1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(std::string(text, size < 0 ? 0 : static_cast<size_t>(size)), HostId());
}

}  // namespace
}  // namespace numoe
