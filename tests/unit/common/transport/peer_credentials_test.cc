// The process at the other end of a Unix socket: this process, one of another user, a member of a group, and
// the errors for each of them.
#include "common/transport/peer_credentials.h"

#include <grp.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>

#include "common/base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

constexpr uid_t kNobody = 65534;
constexpr gid_t kSharedMemoryGroup = 64999;

// An abstract socket that listens, and the connections that it accepted.
class Listener {
 public:
  Listener() {
    const std::string name = "numoe-peers-" + std::to_string(getpid());
    address_.sun_family = AF_UNIX;
    std::memcpy(address_.sun_path + 1, name.data(), name.size());
    length_ = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    EXPECT_EQ(bind(fd_.get(), reinterpret_cast<sockaddr*>(&address_), length_), 0);
    EXPECT_EQ(listen(fd_.get(), 4), 0);
  }
  FileDescriptor Connect() const {
    FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address_), length_), 0);
    return fd;
  }
  FileDescriptor Accept() const { return FileDescriptor(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  const FileDescriptor fd_{socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un address_{};
  socklen_t length_ = 0;
};

TEST(PeerCredentialsTest, BothEndsOfOurOwnConnectionAreOurs) {
  const Listener listener;
  const FileDescriptor client = listener.Connect();
  const FileDescriptor server = listener.Accept();
  for (const FileDescriptor* end : {&client, &server}) {
    const auto peer = ReadPeerCredentials(end->get());
    ASSERT_TRUE(peer.ok()) << peer.status();
    EXPECT_EQ(peer->uid, geteuid());
    EXPECT_EQ(peer->pid, getpid());
    EXPECT_THAT(peer->groups, Contains(getegid()));
    EXPECT_TRUE(CheckPeerOf(end->get(), std::nullopt).ok());
  }
}

TEST(PeerCredentialsTest, OtherDescriptorsHaveNoPeer) {
  const FileDescriptor none;
  EXPECT_FALSE(CheckPeerOf(none.get(), std::nullopt).ok());
}

TEST(PeerCredentialsTest, OwnUserRootAndTheGroupAreTrusted) {
  const PeerCredentials peer{.uid = 1000, .pid = 77, .groups = {1000, kSharedMemoryGroup}};
  EXPECT_TRUE(CheckPeer(peer, /*own=*/1000, std::nullopt).ok());
  EXPECT_TRUE(CheckPeer({.uid = 0, .groups = {0}}, /*own=*/1000, std::nullopt).ok());
  EXPECT_TRUE(CheckPeer(peer, /*own=*/0, kSharedMemoryGroup).ok());
  const absl::Status refused = CheckPeer(peer, /*own=*/1001, std::nullopt);
  EXPECT_TRUE(absl::IsPermissionDenied(refused));
  EXPECT_THAT(refused.ToString(),
              AllOf(HasSubstr("process 77 of user 1000"), HasSubstr("expected user 1001, root"),
                    HasSubstr("--shared-memory-group")));
  EXPECT_THAT(CheckPeer(peer, /*own=*/1001, gid_t{5}).ToString(), HasSubstr("root or group 5"));
  EXPECT_FALSE(CheckPeer(peer, /*own=*/0, std::nullopt).ok()) << "root's daemons take no other user's memory";
}

// The kernel reports the user, whatever the process claims.
TEST(PeerCredentialsTest, AnotherUsersProcessIsRefusedUnlessItIsOfTheGroup) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  const Listener listener;
  for (const bool member : {false, true}) {
    const pid_t child = fork();
    if (child == 0) {
      const gid_t group = kSharedMemoryGroup;
      if (setgroups(member ? 1 : 0, &group) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0) _exit(1);
      const FileDescriptor client = listener.Connect();
      char byte;
      _exit(read(client.get(), &byte, 1) == 0 ? 0 : 2);  // until it may end
    }
    {
      const FileDescriptor server = listener.Accept();
      const auto peer = ReadPeerCredentials(server.get());
      ASSERT_TRUE(peer.ok()) << peer.status();
      EXPECT_EQ(peer->uid, kNobody);
      EXPECT_EQ(peer->pid, child);
      EXPECT_TRUE(absl::IsPermissionDenied(CheckPeerOf(server.get(), std::nullopt)));
      EXPECT_EQ(CheckPeerOf(server.get(), kSharedMemoryGroup).ok(), member);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
}

TEST(PeerCredentialsTest, GroupsAreNamesOrNumbers) {
  EXPECT_EQ(*ParseSharedMemoryGroup(""), std::nullopt);
  EXPECT_EQ(*ParseSharedMemoryGroup("64999"), kSharedMemoryGroup);
  if (const group* own = getgrgid(getegid()); own != nullptr) {
    EXPECT_EQ(*ParseSharedMemoryGroup(own->gr_name), getegid());
  }
  for (const char* wrong : {"no such group", "-1", "4294967295", "99999999999", "12x"}) {
    const absl::Status status = ParseSharedMemoryGroup(wrong).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(status.ToString(), HasSubstr(std::string("--shared-memory-group=") + wrong));
  }
}

// Processes without a number in our user namespace are shown with this number, so it does not identify
// anyone.
TEST(PeerCredentialsTest, TheNumberOfOtherNamespacesIsNotTrusted) {
  constexpr gid_t kStrangers = 65534;
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const FileDescriptor ours(ends[0]), theirs(ends[1]);
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckPeerOf(ours.get(), kStrangers)));
  EXPECT_TRUE(CheckPeerOf(ours.get(), kStrangers - 1).ok() || geteuid() == kStrangers);
}

}  // namespace
}  // namespace numoe
