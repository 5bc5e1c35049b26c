// Wrong addresses are refused before a model is loaded, and no file is lost.
#include "expert_worker/service/listen_address.h"

#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/safetensors_writer.h"

namespace numoe::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr gid_t kForeignGroup = 64998;  // no user of this host is in this group

std::string Refusal(const std::string& address) {
  const absl::Status status = CheckListenAddress(address);
  EXPECT_FALSE(status.ok()) << address;
  return std::string(status.message());
}

int BindUnix(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  EXPECT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

struct stat InfoOf(const std::string& path) {
  struct stat info {};
  EXPECT_EQ(stat(path.c_str(), &info), 0);
  return info;
}

TEST(ListenAddressTest, TextThatIsNotAnAddressIsRefused) {
  for (const char* address :
       {"nonsense", ":70", "localhost:", "localhost:seventy", "localhost:70000", "unix:"})
    EXPECT_THAT(Refusal(address), HasSubstr("--listen")) << address;
  EXPECT_THAT(Refusal("unix:/nowhere/at/all.sock"),
              HasSubstr("/nowhere/at: No such file or directory; expected a folder"));
}

TEST(ListenAddressTest, ATakenPortIsRefused) {
  EXPECT_TRUE(CheckListenAddress("127.0.0.1:0").ok());
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&any), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&any), &size), 0);
  EXPECT_THAT(Refusal("127.0.0.1:" + std::to_string(ntohs(any.sin_port))), HasSubstr("in use"));
  close(fd);
}

// The file must not be taken for a socket of a dead process and removed.
TEST(ListenAddressTest, AFileThatIsNotASocketIsKept) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "precious.txt").string();
  std::ofstream(path) << "text";
  EXPECT_THAT(Refusal("unix:" + path), HasSubstr("is not a socket"));
  EXPECT_FALSE(ClearUnixPath(path).ok());
  EXPECT_TRUE(std::filesystem::exists(path));
}

TEST(ListenAddressTest, ASocketIsReplacedOnceNoProcessServesIt) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "socket").string();
  EXPECT_TRUE(CheckListenAddress("unix:" + path).ok());
  const int fd = BindUnix(path);
  ASSERT_EQ(listen(fd, 1), 0);
  EXPECT_THAT(Refusal("unix:" + path), HasSubstr("served by another process"));
  EXPECT_FALSE(ClearUnixPath(path).ok());
  close(fd);
  EXPECT_TRUE(CheckListenAddress("unix:" + path).ok());
  EXPECT_TRUE(std::filesystem::exists(path)) << "asking removes nothing";
  EXPECT_TRUE(ClearUnixPath(path).ok());
  EXPECT_FALSE(std::filesystem::exists(path));
}

// A process that is stopped with a full queue, and a socket of another kind: neither is stale, and neither is
// waited for.
TEST(ListenAddressTest, ABusySocketAndADatagramSocketAreServed) {
  const TemporaryFolder folder;
  const std::string busy = (folder.path() / "busy").string(), other = (folder.path() / "other").string();
  const int fd = BindUnix(busy);
  ASSERT_EQ(listen(fd, 0), 0);
  std::vector<int> clients;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, busy.c_str(), sizeof address.sun_path - 1);
  int connected = 0;
  while (connected == 0) {
    clients.push_back(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    connected = connect(clients.back(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  EXPECT_THAT(Refusal("unix:" + busy), HasSubstr("served by another process"));
  const int datagrams = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  std::strncpy(address.sun_path, other.c_str(), sizeof address.sun_path - 1);
  ASSERT_EQ(bind(datagrams, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_THAT(Refusal("unix:" + other), HasSubstr("served by another process"));
  for (const int client : clients) close(client);
  close(datagrams);
  close(fd);
}

TEST(ListenAddressTest, ASharedSocketIsNeverOpenToOthersThanOurUserAndTheGroup) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "socket").string();
  const gid_t group = geteuid() == 0 ? kForeignGroup : getegid();
  const mode_t before = umask(0);
  {
    const PrivateFiles only_ours;
    close(BindUnix(path));
  }
  EXPECT_EQ(umask(before), 0u) << "files that are created later have the usual permissions";
  EXPECT_EQ(InfoOf(path).st_mode & 077, 0u);
  const absl::Status shared = ShareSocket(path, group);
  EXPECT_TRUE(shared.ok()) << shared;
  EXPECT_EQ(InfoOf(path).st_mode & 07777, 0660u);
  EXPECT_EQ(InfoOf(path).st_gid, group);
}

TEST(ListenAddressTest, NothingButASocketIsShared) {
  const TemporaryFolder folder;
  const std::string socket = (folder.path() / "socket").string(), file = (folder.path() / "file").string(),
                    link = (folder.path() / "link").string();
  close(BindUnix(socket));
  std::ofstream(file) << "text";
  std::filesystem::create_symlink(socket, link);
  const mode_t mode = InfoOf(socket).st_mode, file_mode = InfoOf(file).st_mode;
  for (const std::string& path : {file, link, (folder.path() / "nothing").string()})
    EXPECT_THAT(ShareSocket(path, getegid()).ToString(), HasSubstr("--listen=unix:" + path)) << path;
  EXPECT_EQ(InfoOf(socket).st_mode, mode);
  EXPECT_EQ(InfoOf(file).st_mode, file_mode);
}

// This is checked before a model is loaded, because that takes minutes.
TEST(ListenAddressTest, AGroupThatWeAreNotInIsRefused) {
  constexpr uid_t kNobody = 65534;
  const TemporaryFolder folder;
  const std::string path = "socket";  // of that folder, which the other user may not find by its name
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (chdir(folder.path().c_str()) != 0) _exit(1);
    if (geteuid() == 0 && (setgroups(0, nullptr) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0))
      _exit(1);
    close(BindUnix(path));
    const auto refusal =
        AllOf(HasSubstr("--shared-memory-group"), HasSubstr("cannot be given to group 64998"));
    const auto refused = [&](const absl::Status& status) {
      return absl::IsInvalidArgument(status) && ::testing::Value(std::string(status.message()), refusal);
    };
    const bool asked = refused(CheckListenAddress("unix:" + path, kForeignGroup)) &&
                       CheckListenAddress("unix:" + path, getegid()).ok();
    _exit(asked && refused(ShareSocket(path, kForeignGroup)) ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace numoe::worker
