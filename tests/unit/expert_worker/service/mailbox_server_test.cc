// The mailbox socket as peers see it: who may connect, how many, what happens when they leave, and a session
// whose peer writes anything into the segment.
#include "expert_worker/service/mailbox_server.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <random>

#include "common/topology/node_memory.h"
#include "common/transport/mailbox_channel.h"
#include "common/transport/mapped_weights.h"
#include "common/transport/transport_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe::worker {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kMailboxHidden = 4;
constexpr int kMailboxExperts = 8;
constexpr uint64_t kMailboxInstance = 0xfeedfacecafebeef;
constexpr int64_t kMailboxPatienceMs = 120'000;
constexpr size_t kMailboxSlotBytes = 1 << 20;
constexpr uid_t kMailboxNobody = 65534;

// Computes out = hidden. Its arguments have been checked already.
class Copies final : public LayerExecutor {
 public:
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out) override {
    for (const ExpertId expert : call.experts)
      NUMOE_CHECK(expert == kNoExpert || (expert >= 0 && expert < kMailboxExperts)) << expert;
    NUMOE_CHECK_EQ(call.hidden.size(), out.size());
    std::copy(call.hidden.begin(), call.hidden.end(), out.begin());
    return absl::OkStatus();
  }
};

FileDescriptor ConnectTo(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  FileDescriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), length), 0);
  return fd;
}

class MailboxServerTest : public ::testing::Test {
 protected:
  void SetUp() override { Start({}); }
  void Start(MailboxServerOptions options) {
    options.shape = {kMailboxHidden, kMailboxExperts};
    options.experts_per_token = 2;
    if (options.silence_max == MailboxServerOptions{}.silence_max)
      options.silence_max =
          std::chrono::hours(24);  // otherwise it might end sessions before the tests expect it
    options.attach_max = std::chrono::hours(24);
    server_.reset();
    auto server = MailboxServer::Start(executor_, options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  FileDescriptor Connect() const { return ConnectTo(server_->socket_name()); }
  // Returns a complete session, or the reason why there is none.
  absl::StatusOr<std::unique_ptr<MailboxChannel>> Attach() const {
    FileDescriptor socket = Connect();
    auto fd = ReceiveDescriptor(socket.get());
    if (!fd.ok()) return fd.status();
    auto segment = MailboxSegment::Attach(*std::move(fd), kMailboxSlotBytes);
    if (!segment.ok()) return segment.status();
    if (send(socket.get(), &kAttached, 1, MSG_NOSIGNAL) != 1) return absl::UnavailableError("it left");
    return std::make_unique<MailboxChannel>(*std::move(segment), Side::kCoordinator, std::move(socket));
  }
  // Retries, because other sessions may still be ending.
  std::unique_ptr<MailboxChannel> MustAttach() const {
    for (int i = 0; i < kMailboxPatienceMs / 5; ++i) {
      if (auto channel = Attach(); channel.ok()) return *std::move(channel);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "no session is accepted";
    return nullptr;
  }
  LayerCallView View(uint64_t instance = kMailboxInstance) const {
    return {.instance = instance,
            .tokens = 2,
            .experts_per_token = 2,
            .hidden = hidden_,
            .experts = experts_,
            .weights = weights_};
  }
  absl::Status Call(MailboxChannel& channel, uint64_t id, uint64_t instance = kMailboxInstance) const {
    channel.Publish(EncodeRequest(id, View(instance), channel.Outgoing()));
    const auto message = channel.Receive(kMailboxPatienceMs, 20);
    if (!message.ok()) return message.status();
    const auto partial = DecodeReply(*message, id, hidden_.size());
    if (!partial.ok()) return partial.status();
    EXPECT_EQ(std::vector<float>(partial->begin(), partial->end()), hidden_);
    return absl::OkStatus();
  }
  bool AwaitSessions(int count) const {
    for (int i = 0; i < kMailboxPatienceMs / 5 && server_->sessions() != count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    return server_->sessions() == count;
  }

  const std::vector<float> hidden_ = {1, 2, 3, 4, 5, 6, 7, 8}, weights_ = {1, 1, 1, 1};
  const std::vector<ExpertId> experts_ = {0, 3, 2, 1};
  Copies copies_;
  SharedExecutor executor_{copies_, kMailboxInstance};
  std::unique_ptr<MailboxServer> server_;
};

TEST_F(MailboxServerTest, ACallIsAnsweredAndOneForAnotherProcessIsRefused) {
  const auto channel = MustAttach();
  EXPECT_TRUE(Call(*channel, 1).ok());
  const absl::Status refused = Call(*channel, 2, kMailboxInstance + 1);
  EXPECT_THAT(refused.ToString(), AllOf(HasSubstr("code 9"), HasSubstr("feedfacecafebef0"),
                                        HasSubstr("this is worker process feedfacecafebeef")));
  EXPECT_EQ(executor_.calls(), 1u) << "a refused call is not computed";
  EXPECT_TRUE(Call(*channel, 3).ok());
}

TEST_F(MailboxServerTest, SessionsAreBoundedAndThoseThatLeaveAreReplaced) {
  std::vector<std::unique_ptr<MailboxChannel>> attached;
  while (attached.size() < limits::kMailboxSessionsMax - 1) attached.push_back(MustAttach());
  {
    const FileDescriptor silent = Connect();  // counts although it never attaches
    ASSERT_TRUE(AwaitSessions(limits::kMailboxSessionsMax));
    const absl::Status refused = Attach().status();
    EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
    EXPECT_TRUE(Call(*attached.back(), 1).ok()) << "existing sessions are served";
  }
  ASSERT_TRUE(AwaitSessions(limits::kMailboxSessionsMax - 1))
      << "a session that was closed before it attached has ended";
  EXPECT_TRUE(Call(*MustAttach(), 1).ok());
  attached.clear();
  EXPECT_TRUE(AwaitSessions(0));
}

TEST_F(MailboxServerTest, ASessionEndsWithItsConnectionWhateverItWrote) {
  FileDescriptor socket = Connect();
  const auto fd = ReceiveDescriptor(socket.get());
  ASSERT_TRUE(fd.ok()) << fd.status();
  const auto attach = [&] {
    return *MailboxSegment::Attach(FileDescriptor(dup(fd->get())), kMailboxSlotBytes);
  };
  const MailboxSegment kept = attach();  // as another process's would be
  MailboxSegment mapped = attach();
  ASSERT_EQ(send(socket.get(), &kAttached, 1, MSG_NOSIGNAL), 1);
  auto channel = std::make_unique<MailboxChannel>(std::move(mapped), Side::kCoordinator, std::move(socket));
  ASSERT_TRUE(Call(*channel, 1).ok());
  kept.header().mail[0].awake.store(1);
  channel.reset();
  EXPECT_TRUE(AwaitSessions(0));
}

// Its socket is connected, and the process at the other end is stopped.
TEST_F(MailboxServerTest, ASilentCoordinatorsSessionEndsAndOneThatGivesSignsOfLifeDoesNot) {
  Start({.silence_max = std::chrono::seconds(2)});
  std::atomic<bool> stop{false};
  const auto noted = MustAttach();
  std::thread signs([&] {
    while (!stop.load()) {
      server_->NoteSign(noted->segment().session());
      server_->NoteSign(noted->segment().session() + 1);  // no session has this number
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const auto silent = MustAttach();
  EXPECT_NE(silent->segment().session(), noted->segment().session());
  EXPECT_TRUE(absl::IsUnavailable(silent->Receive(kMailboxPatienceMs, 0).status()));
  EXPECT_TRUE(Call(*noted, 1).ok());
  stop.store(true);
  signs.join();
  EXPECT_TRUE(AwaitSessions(0));
}

TEST_F(MailboxServerTest, AMappedSegmentCannotBeMappedAgainOrFreed) {
  const auto channel = MustAttach();
  ASSERT_TRUE(Call(*channel, 1).ok());  // so it has attached
  const int fd = channel->segment().fd();
  if (!HasSeals(fd, F_SEAL_SEAL)) GTEST_SKIP() << "before Linux 5.1 there is no such seal";
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
  const absl::Span<std::byte> bytes = channel->segment().bytes();
  EXPECT_NE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, bytes.size()), 0);
  EXPECT_NE(madvise(bytes.data(), bytes.size(), MADV_REMOVE), 0);
  EXPECT_TRUE(Call(*channel, 2).ok()) << "both still write";
}

TEST_F(MailboxServerTest, AnUnexpectedByteEndsTheSession) {
  const FileDescriptor socket = Connect();
  ASSERT_TRUE(ReceiveDescriptor(socket.get()).ok());
  ASSERT_EQ(write(socket.get(), "x", 1), 1);
  EXPECT_TRUE(AwaitSessions(0));
  char byte = 0;
  EXPECT_LE(read(socket.get(), &byte, 1), 0) << "it was closed";
}

// Overwrites every byte of the segment again and again, while calls continue in another session.
TEST_F(MailboxServerTest, GarbageInTheWordsDoesNotHarmOtherSessions) {
  std::mt19937 random(11);
  const auto other = MustAttach();
  for (int round = 0; round < 200; ++round) {
    const auto channel = MustAttach();
    if (round % 2 == 0) channel->Publish(EncodeRequest(1, View(), channel->Outgoing()));
    const absl::Span<std::byte> bytes = channel->segment().bytes();
    for (int i = 0; i < 64; ++i) {
      const size_t at = i % 4 == 0 ? random() % bytes.size() : random() % sizeof(SegmentHeader);
      bytes[at] = static_cast<std::byte>(random());
    }
    ASSERT_TRUE(Call(*other, static_cast<uint64_t>(round) + 1).ok());
  }
}

TEST_F(MailboxServerTest, WeightsAreSentOnRequestAndOnlyForReading) {
  const NodeMemory memory = *NodeMemory::Allocate(1 << 21, {.shared = true});
  ASSERT_TRUE(memory.SealContent().ok());
  Start({.experts_fd = memory.fd()});
  const FileDescriptor socket = Connect();
  ASSERT_TRUE(ReceiveDescriptor(socket.get()).ok());
  ASSERT_EQ(send(socket.get(), &kWantWeights, 1, MSG_NOSIGNAL), 1);
  const auto weights = ReceiveDescriptor(socket.get());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, weights->get(), 0), MAP_FAILED);
  EXPECT_EQ(pwrite(weights->get(), "x", 1, 0), -1);
  ASSERT_EQ(send(socket.get(), &kWantWeights, 1, MSG_NOSIGNAL), 1);
  EXPECT_FALSE(ReceiveDescriptor(socket.get()).ok()) << "they are asked for once";
}

// Returns the exit status of a process of another user that asks for a segment: 0 if it got one, 1 if it was
// refused.
int AskAsNobody(const std::string& name, std::optional<gid_t> group) {
  const pid_t child = fork();
  if (child == 0) {
    const gid_t member = group.value_or(0);
    if (setgroups(group.has_value() ? 1 : 0, &member) != 0 || setgid(kMailboxNobody) != 0 ||
        setuid(kMailboxNobody) != 0)
      _exit(2);
    const FileDescriptor socket = ConnectTo(name);
    _exit(ReceiveDescriptor(socket.get()).ok() ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST_F(MailboxServerTest, AnotherUsersProcessGetsNoSegment) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root to become another user";
  constexpr gid_t kGroup = 64998;
  EXPECT_EQ(AskAsNobody(server_->socket_name(), std::nullopt), 1);
  EXPECT_EQ(AskAsNobody(server_->socket_name(), kGroup), 1);
  EXPECT_EQ(server_->sessions(), 0) << "nothing was made for it";
  Start({.group = kGroup});
  EXPECT_EQ(AskAsNobody(server_->socket_name(), std::nullopt), 1);
  EXPECT_EQ(AskAsNobody(server_->socket_name(), kGroup), 0);
}

}  // namespace
}  // namespace numoe::worker
