// Neither a file nor a program to which the kernel pipes dumps gets this process's memory.
#include "common/base/core_dumps.h"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "gtest/gtest.h"

namespace numoe {
namespace {

constexpr int kMayNotRaise = 77;

TEST(CoreDumpsTest, AProcessThatForbidsThemLeavesNoneAndCannotAllowThemAgain) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const absl::Status forbidden = ForbidCoreDumps();
    rlimit limit = {};
    if (getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != limit.rlim_max) _exit(3);
    if (limit.rlim_max == 0 && prctl(PR_GET_DUMPABLE) == 0) _exit(kMayNotRaise);
    if (limit.rlim_max != 1 || !forbidden.ok()) _exit(4);
    std::abort();
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  if (WIFEXITED(status) && WEXITSTATUS(status) == kMayNotRaise)
    GTEST_SKIP() << "the hard limit of core dumps is 0 here, which this process may not raise";
  ASSERT_TRUE(WIFSIGNALED(status)) << "exit code " << WEXITSTATUS(status);
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  EXPECT_FALSE(WCOREDUMP(status));
}

// Like under `ulimit -H -c 0`, where a pipe of the kernel would still get the dump.
TEST(CoreDumpsTest, AProcessThatMayNotRaiseTheLimitIsMadeUndumpable) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const rlimit none = {.rlim_cur = 0, .rlim_max = 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0) _exit(3);
    constexpr uid_t kNobody = 65534;
    if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(4);  // root may raise it
    if (prctl(PR_SET_DUMPABLE, 1) != 0) _exit(5);
    const absl::Status forbidden = ForbidCoreDumps();
    if (!absl::IsPermissionDenied(forbidden)) _exit(7);
    _exit(prctl(PR_GET_DUMPABLE) == 0 ? 0 : 6);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace numoe
