// Links to workers that behave in wrong ways: each is refused with a message, and none makes the coordinator
// wait for ever.
#include "coordinator/execution/transport/worker_link.h"

#include <fmt/format.h>
#include <grp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>
#include <utility>

#include "common/base/file_descriptor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/coordinator/execution/transport/lying_worker.h"

namespace numoe::execution {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(WorkerLinkTest, AnUnknownSliceModeIsRefused) {
  for (const int mode : {0, 77}) {
    LyingWorker liar(mode);
    liar.Listen();
    const auto link = WorkerLink::Connect(liar.address(), {.hidden_size = 4, .num_experts = 2});
    EXPECT_TRUE(absl::IsFailedPrecondition(link.status())) << link.status();
    EXPECT_THAT(link.status().ToString(),
                HasSubstr("its slice mode is " + std::to_string(mode) + ", expected 1"));
  }
}

TEST(WorkerLinkTest, AWorkerCountBeyondTheLimitIsRefused) {
  for (const int count : {0, 65, INT32_MAX}) {
    LyingWorker liar(v1::SLICE_MODE_EXPERT, count);
    liar.Listen();
    const auto link = WorkerLink::Connect(liar.address(), {.hidden_size = 4, .num_experts = 2});
    EXPECT_TRUE(absl::IsFailedPrecondition(link.status())) << link.status();
    EXPECT_THAT(link.status().ToString(), HasSubstr("at most 64 workers"));
  }
}

TEST(WorkerLinkTest, ASocketWithAnotherNameThanAMailboxIsNotConnectedTo) {
  LyingWorker liar(v1::SLICE_MODE_EXPERT);
  liar.Listen();
  for (const std::string& name : {std::string("/org/freedesktop/DBus"), std::string("numoe-mailbox-12"),
                                  "numoe-mailbox-" + std::string(32, 'g'), std::string(200, 'a')}) {
    liar.mailbox_socket = name;
    const auto link = WorkerLink::Connect(
        liar.address(), {.data_path = DataPath::kSharedMemory, .hidden_size = 4, .num_experts = 2});
    EXPECT_TRUE(absl::IsInvalidArgument(link.status())) << link.status();
    EXPECT_THAT(link.status().ToString(), HasSubstr("expected numoe-mailbox- and 32 hexadecimal digits"));
  }
}

// Starts a child process that listens at an abstract socket as another user until it is killed. Returns its
// process id, or -1.
pid_t ListenAsAnother(const std::string& name) {
  int ready[2];
  if (pipe(ready) != 0) return -1;
  const pid_t child = fork();
  if (child == 0) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (setgroups(0, nullptr) != 0 || setgid(64996) != 0 || setuid(64996) != 0 ||
        bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 || listen(listener, 4) != 0)
      _exit(1);
    (void)!write(ready[1], "x", 1);
    pause();
    _exit(0);
  }
  char byte;
  close(ready[1]);
  const bool listens = read(ready[0], &byte, 1) == 1;
  close(ready[0]);
  return listens ? child : -1;
}

TEST(WorkerLinkTest, AWorkerOfAnotherUserIsNotUsedOverAStreamEither) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  LyingWorker liar(v1::SLICE_MODE_EXPERT);
  liar.mailbox_socket = "numoe-mailbox-" + fmt::format("{:032x}", getpid());
  const pid_t child = ListenAsAnother(liar.mailbox_socket);
  ASSERT_GT(child, 0);
  liar.Listen();
  const auto connect = [&](DataPath path) {
    return WorkerLink::Connect(liar.address(), {.data_path = path, .hidden_size = 4, .num_experts = 2})
        .status();
  };
  for (const DataPath path : {DataPath::kAuto, DataPath::kSharedMemory}) {
    const absl::Status refused = connect(path);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(refused.ToString(), AllOf(HasSubstr("of user 64996"), HasSubstr("--data-path=grpc")));
  }
  EXPECT_TRUE(connect(DataPath::kGrpc).ok()) << "--data-path=grpc allows it";
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

// --- a worker that answers the handshake and then allows no stream: HTTP/2 as bytes ------------------------

// Returns a frame for the connection if the type is SETTINGS (4), otherwise for stream 1.
std::string FrameOf(char type, char flags, const std::string& content) {
  const bool of_stream = type != 4;
  return std::string{0, 0, static_cast<char>(content.size()),   type, flags, 0,
                     0, 0, static_cast<char>(of_stream ? 1 : 0)} +
         content;
}
std::string HeaderOf(const std::string& name, const std::string& value) {
  return std::string{0, static_cast<char>(name.size())} + name + static_cast<char>(value.size()) + value;
}

// Serves one connection until it is closed.
void AllowNoStreams(int connection, const std::string& reply) {
  const auto say = [&](const std::string& bytes) {
    (void)!send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  };
  say(FrameOf(4, 0, ""));
  std::string read;
  char buffer[4096];
  bool answered = false;
  constexpr size_t kPreface = 24, kFrameHead = 9;
  for (size_t at = kPreface; true;) {
    const ssize_t got = recv(connection, buffer, sizeof buffer, 0);
    if (got <= 0) return;
    read.append(buffer, static_cast<size_t>(got));
    while (at + kFrameHead <= read.size()) {
      const auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<uint8_t>(read[at + i])); };
      const size_t size = byte(0) << 16 | byte(1) << 8 | byte(2);
      if (at + kFrameHead + size > read.size()) break;
      if (byte(3) == 4 && (byte(4) & 1) == 0) say(FrameOf(4, 1, ""));
      if (byte(3) == 0 && (byte(4) & 1) != 0 && !std::exchange(answered, true)) {
        say(FrameOf(4, 0, std::string{0, 3, 0, 0, 0, 0}) +
            FrameOf(1, 4, "\x88" + HeaderOf("content-type", "application/grpc")) +
            FrameOf(0, 0, std::string{0, 0, 0, 0, static_cast<char>(reply.size())} + reply) +
            FrameOf(1, 5, HeaderOf("grpc-status", "0")));
      }
      at += kFrameHead + size;
    }
  }
}

TEST(WorkerLinkTest, AWorkerThatAllowsNoStreamDoesNotMakeTheCoordinatorWait) {
  v1::HandshakeReply reply;
  reply.set_protocol_version(kProtocolVersion);
  reply.set_slice_mode(v1::SLICE_MODE_EXPERT);
  reply.set_worker_count(1);
  reply.set_hidden_size(4);
  reply.set_num_experts(2);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t bytes = sizeof place;
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<const sockaddr*>(&place), bytes), 0);
  ASSERT_EQ(listen(listener.get(), 4), 0);
  ASSERT_EQ(getsockname(listener.get(), reinterpret_cast<sockaddr*>(&place), &bytes), 0);
  std::thread serves([&] {
    const FileDescriptor connection(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    AllowNoStreams(connection.get(), reply.SerializeAsString());
  });
  {
    const auto link = WorkerLink::Connect("127.0.0.1:" + std::to_string(ntohs(place.sin_port)),
                                          {.data_path = DataPath::kGrpc,
                                           .hidden_size = 4,
                                           .num_experts = 2,
                                           .heartbeat_ms = 1,
                                           .heartbeat_deadline_ms = 200});
    ASSERT_TRUE(link.ok()) << link.status();
    absl::Status alive;
    while (alive.ok()) alive = (*link)->Alive();
    EXPECT_TRUE(absl::IsUnavailable(alive)) << alive;
  }
  serves.join();
}

}  // namespace
}  // namespace numoe::execution
