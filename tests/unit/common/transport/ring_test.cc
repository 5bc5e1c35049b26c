// The ring between two real processes: messages, dead peers, stuck peers, peers that write what they like,
// malformed descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <random>
#include <thread>

#include "common/transport/call_codec.h"
#include "common/transport/ring_channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace numoe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Pair {
  std::unique_ptr<RingChannel> worker;
  std::unique_ptr<RingChannel> coordinator;
};

// Connected sockets, the worker's first.
std::array<FileDescriptor, 2> MakeSockets() {
  int sockets[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets), 0);
  return {FileDescriptor(sockets[0]), FileDescriptor(sockets[1])};
}

Pair MakePair(size_t slot_bytes) {
  absl::StatusOr<RingSegment> segment = RingSegment::Create(slot_bytes);
  EXPECT_TRUE(segment.ok()) << segment.status();
  absl::StatusOr<RingSegment> attached = RingSegment::Attach(FileDescriptor(dup(segment->fd())), slot_bytes);
  EXPECT_TRUE(attached.ok()) << attached.status();
  auto [worker, coordinator] = MakeSockets();
  return {std::make_unique<RingChannel>(*std::move(segment), Side::kWorker, std::move(worker)),
          std::make_unique<RingChannel>(*std::move(attached), Side::kCoordinator, std::move(coordinator))};
}

TEST(RingTest, MessagesGoBothWaysInOrder) {
  Pair pair = MakePair(1 << 16);
  std::thread worker([&] {
    for (int i = 0; i < 2000; ++i) {
      const auto message = pair.worker->Receive(5000, i % 3 == 0 ? 0 : 20);
      ASSERT_TRUE(message.ok()) << message.status();
      std::memcpy(pair.worker->Outgoing().data(), message->data(), message->size());
      pair.worker->Publish(message->size());
    }
  });
  for (int i = 0; i < 2000; ++i) {
    std::memcpy(pair.coordinator->Outgoing().data(), &i, sizeof i);
    pair.coordinator->Publish(sizeof i + static_cast<size_t>(i));
    const auto reply = pair.coordinator->Receive(5000, 20);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->size(), sizeof i + static_cast<size_t>(i));
    ASSERT_EQ(std::memcmp(reply->data(), &i, sizeof i), 0);
  }
  worker.join();
  EXPECT_TRUE(pair.coordinator->PeerAlive());
  pair.worker.reset();
  EXPECT_FALSE(pair.coordinator->PeerAlive());
}

// A call's second reply comes when it comes: before the first is read, or long after, and calls with one
// reply in between. Contents, order and lengths are those of what was asked for.
TEST(RingTest, DeferredRepliesComeByThemselves) {
  constexpr int kCalls = 3000;
  Pair pair = MakePair(1 << 14);
  const auto defers = [](int i) { return i * 7 % 5 != 0; };
  const auto length = [](int i) { return sizeof i + static_cast<size_t>(i * 37 % 4000); };
  std::thread worker([&] {
    std::mt19937 random(5);
    for (int i = 0; i < kCalls; ++i) {
      const auto message = pair.worker->Receive(-1, random() % 2 == 0 ? 0 : 20);
      ASSERT_TRUE(message.ok()) << message.status();
      for (const ReplyPart part : {ReplyPart::kImmediate, ReplyPart::kDeferred}) {
        if (part == ReplyPart::kDeferred && !defers(i)) continue;
        const int value = part == ReplyPart::kDeferred ? ~i : i;
        std::memcpy(pair.worker->Outgoing(part).data(), &value, sizeof value);
        if (random() % 8 == 0) std::this_thread::yield();
        pair.worker->Publish(length(value & 1023), part);
      }
    }
  });
  std::mt19937 random(6);
  const auto expect = [&](ReplyPart part, int value) {
    const auto reply = pair.coordinator->Receive(60'000, random() % 2 == 0 ? 0 : 20, part);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->size(), length(value & 1023));
    ASSERT_EQ(std::memcmp(reply->data(), &value, sizeof value), 0);
  };
  for (int i = 0; i < kCalls; ++i) {
    pair.coordinator->Publish(1);
    ASSERT_NO_FATAL_FAILURE(expect(ReplyPart::kImmediate, i));
    if (random() % 8 == 0) std::this_thread::yield();
    if (defers(i)) {
      ASSERT_NO_FATAL_FAILURE(expect(ReplyPart::kDeferred, ~i));
    }
  }
  worker.join();
  EXPECT_EQ(pair.coordinator->sent(ReplyPart::kImmediate), static_cast<uint32_t>(kCalls));
  EXPECT_EQ(pair.coordinator->received(ReplyPart::kImmediate), static_cast<uint32_t>(kCalls));
}

TEST(RingTest, ADeferredLengthBeyondItsHalfIsRefused) {
  Pair pair = MakePair(4096);
  EXPECT_EQ(pair.worker->Outgoing(ReplyPart::kDeferred).size(), 2048u);
  pair.worker->Publish(2049, ReplyPart::kDeferred);
  EXPECT_EQ(pair.coordinator->Receive(60'000, 10, ReplyPart::kDeferred).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// As far as writing goes a peer can do all that it likes with the words; with `awake` the reader spins.
void ForgeLife(SegmentHeader& header) {
  for (Mailbox* mail : {&header.mail[0], &header.mail[1], &header.deferred}) {
    mail->awake.store(1);
    mail->sleeping.store(1);
  }
}

TEST(RingTest, AKilledPeerIsNoticedWhateverItWrote) {
  for (const bool forges : {false, true}) {
    absl::StatusOr<RingSegment> segment = RingSegment::Create(4096);
    ASSERT_TRUE(segment.ok());
    auto [ours, theirs] = MakeSockets();
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ours.get());
      absl::StatusOr<RingSegment> mine = RingSegment::Attach(FileDescriptor(dup(segment->fd())), 4096);
      const RingChannel channel(*std::move(mine), Side::kCoordinator, std::move(theirs));
      if (forges) ForgeLife(channel.segment().header());
      (void)!write(ready[1], "x", 1);
      pause();
      _exit(0);
    }
    theirs = FileDescriptor();
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    RingChannel worker(*std::move(segment), Side::kWorker, std::move(ours));
    EXPECT_TRUE(worker.PeerAlive());
    kill(child, SIGKILL);
    const auto message = worker.Receive(-1, 0);
    EXPECT_EQ(message.status().code(), absl::StatusCode::kUnavailable) << message.status();
    EXPECT_FALSE(worker.PeerAlive());
    EXPECT_FALSE(worker.PeerAlive()) << "a dead peer stays dead";
    waitpid(child, nullptr, 0);
    close(ready[0]);
    close(ready[1]);
  }
}

TEST(RingTest, AByteThatNobodyExpectsEndsTheSession) {
  absl::StatusOr<RingSegment> segment = RingSegment::Create(4096);
  ASSERT_TRUE(segment.ok());
  auto [ours, theirs] = MakeSockets();
  RingChannel worker(*std::move(segment), Side::kWorker, std::move(ours));
  EXPECT_TRUE(worker.PeerAlive());
  ASSERT_EQ(write(theirs.get(), "?", 1), 1);
  EXPECT_FALSE(worker.PeerAlive());
  EXPECT_TRUE(absl::IsUnavailable(worker.Receive(-1, 0).status()));
}

TEST(RingTest, CloseFreesWhoWaitsAtBothEnds) {
  Pair pair = MakePair(4096);
  std::thread waits([&] { EXPECT_TRUE(absl::IsUnavailable(pair.coordinator->Receive(-1, 0).status())); });
  pair.coordinator->Close();
  waits.join();
  EXPECT_TRUE(absl::IsUnavailable(pair.worker->Receive(-1, 0).status()));
}

TEST(RingTest, AStuckPeerRunsIntoTheDeadline) {
  const Pair pair = MakePair(4096);
  EXPECT_EQ(pair.coordinator->Receive(20, 10).status().code(), absl::StatusCode::kDeadlineExceeded);
}

// A reader's own number counts, and a writer's own number is what it writes next.
TEST(RingTest, CountersThatAPeerWroteAreRefusedOrReplaced) {
  for (const uint32_t forged : {2u, 7u, 0xffffffffu}) {
    const Pair pair = MakePair(4096);
    Mailbox& mail = RingChannel::Mail(pair.worker->segment(), Side::kCoordinator, ReplyPart::kImmediate);
    mail.published.store(forged);
    const absl::Status refused = pair.worker->Receive(-1, 0).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr("is " + std::to_string(forged) + ", expected 1"));
    pair.coordinator->Publish(3);
    const auto message = pair.worker->Receive(-1, 0);
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(message->size(), 3u);
  }
}

TEST(RingTest, ALengthBeyondTheSlotIsRefused) {
  Pair pair = MakePair(4096);
  pair.worker->Publish(1u << 30);
  EXPECT_EQ(pair.coordinator->Receive(1000, 10).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(RingTest, UnsealedOrWrongSegmentsAreRefused) {
  const int unsealed = memfd_create("x", 0);
  ASSERT_EQ(ftruncate(unsealed, 1 << 16), 0);
  EXPECT_THAT(RingSegment::Attach(FileDescriptor(unsealed), 1 << 16).status().ToString(),
              HasSubstr("not sealed"));
  // A file that is no memory file has no seals, although asking for them answers with all bits set.
  const std::string path = ::testing::TempDir() + "/ring-file-" + std::to_string(getpid());
  const int file = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(ftruncate(file, 1 << 16), 0);
  EXPECT_THAT(RingSegment::Attach(FileDescriptor(file), 1 << 16).status().ToString(),
              HasSubstr("not sealed"));
  unlink(path.c_str());
}

TEST(RingTest, SegmentsWhoseHeaderLiesAreRefused) {
  const auto error = [](auto change) {
    absl::StatusOr<RingSegment> segment = RingSegment::Create(1 << 14);
    EXPECT_TRUE(segment.ok()) << segment.status();
    change(segment->header());
    return RingSegment::Attach(FileDescriptor(dup(segment->fd())), 1 << 14).status().ToString();
  };
  for (const uint64_t slot_bytes : {uint64_t{0}, uint64_t{1} << 63, UINT64_MAX, (uint64_t{1} << 14) - 4096})
    EXPECT_THAT(error([&](SegmentHeader& h) { h.slot_bytes.store(slot_bytes); }), HasSubstr("header"));
  EXPECT_THAT(error([](SegmentHeader& h) { h.magic.store(7); }), HasSubstr("run the same release"));
  EXPECT_EQ(error([](SegmentHeader&) {}), "OK");
}

// Nothing of it is mapped: mapping makes its pages, in the cgroup of who maps.
TEST(RingTest, ASegmentLargerThanTheLargestCallIsRefusedBeforeItIsMapped) {
  const auto segment = RingSegment::Create(1 << 16);
  ASSERT_TRUE(segment.ok()) << segment.status();
  const int fd = fcntl(segment->fd(), F_DUPFD_CLOEXEC, 0);
  EXPECT_TRUE(RingSegment::Attach(FileDescriptor(dup(fd)), (1 << 16) - 100).ok()) << "whole pages";
  EXPECT_THAT(RingSegment::Attach(FileDescriptor(fd), 1 << 15).status().ToString(),
              HasSubstr("slots have 65536 bytes, expected at most 32768"));
  // As large as it says, sealed, and with no page of its own.
  const int sparse = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  constexpr uint64_t kSlot = uint64_t{1} << 40;
  const uint64_t words[2] = {segment->header().magic.load(), kSlot};
  ASSERT_EQ(ftruncate(sparse, 4096 + 2 * kSlot), 0);
  ASSERT_EQ(pwrite(sparse, words, sizeof words, 0), static_cast<ssize_t>(sizeof words));
  ASSERT_EQ(fcntl(sparse, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_THAT(RingSegment::Attach(FileDescriptor(dup(sparse)), 1 << 20).status().ToString(),
              HasSubstr("expected at most 1048576"));
  struct stat info;
  ASSERT_EQ(fstat(sparse, &info), 0);
  EXPECT_LE(info.st_blocks * 512, 2 << 20) << "the header's page alone";
  close(sparse);
}

TEST(RingTest, ReservedPagesAreNoSegment) {
  const int fd = memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
  if (fd < 0) GTEST_SKIP() << "this kernel has no memory files of reserved pages";
  ASSERT_EQ(ftruncate(fd, 2 << 20), 0);
  ASSERT_EQ(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  EXPECT_THAT(RingSegment::Attach(FileDescriptor(fd), 1 << 20).status().ToString(),
              HasSubstr("reserved huge pages"));
}

TEST(RingTest, DescriptorsTravelOverASocket) {
  int sockets[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
  absl::StatusOr<RingSegment> segment = RingSegment::Create(4096);
  ASSERT_TRUE(SendDescriptor(sockets[0], segment->fd()).ok());
  auto fd = ReceiveDescriptor(sockets[1]);
  ASSERT_TRUE(fd.ok()) << fd.status();
  EXPECT_TRUE(RingSegment::Attach(*std::move(fd), 4096).ok());
  ASSERT_EQ(write(sockets[0], "n", 1), 1);
  EXPECT_THAT(ReceiveDescriptor(sockets[1]).status().ToString(), HasSubstr("0 descriptors, expected 1"));
  close(sockets[0]);
  EXPECT_TRUE(absl::IsUnavailable(ReceiveDescriptor(sockets[1]).status()));
  close(sockets[1]);
}

// As many descriptors as the process has, of them that a socket's peer could leave behind.
size_t CountDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

TEST(RingTest, DescriptorsThatNobodyAskedForAreClosed) {
  const auto [ours, theirs] = MakeSockets();
  for (const size_t count : {2, 3, 100}) {
    const size_t before = CountDescriptors();
    const std::vector<int> sent(count, theirs.get());
    char byte = 'R';
    iovec data{&byte, 1};
    std::vector<char> control(CMSG_SPACE(count * sizeof(int)));
    msghdr message{};
    message.msg_iov = &data;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(header), sent.data(), count * sizeof(int));
    ASSERT_EQ(sendmsg(theirs.get(), &message, 0), 1);
    const absl::Status refused = ReceiveDescriptor(ours.get()).status();
    EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
    EXPECT_THAT(refused.ToString(), HasSubstr("expected 1"));
    EXPECT_EQ(CountDescriptors(), before) << count;
  }
}

class CodecTest : public ::testing::Test {
 protected:
  void SetUp() override {
    hidden_ = {1, 2, 3, 4, 5, 6, 7, 8};
    experts_ = {0, 3, 2, 1};
    weights_ = {0.1f, 0.2f, 0.3f, 0.4f};
    slot_.resize(4096 / sizeof(double));
    length_ = EncodeRequest(7,
                            {.instance = 0x123456789abcdef0,
                             .layer = 3,
                             .tokens = 2,
                             .experts_per_token = 2,
                             .exact = true,
                             .hidden = hidden_,
                             .experts = experts_,
                             .weights = weights_},
                            Slot());
  }
  absl::Span<std::byte> Slot() {
    return {reinterpret_cast<std::byte*>(slot_.data()), slot_.size() * sizeof(double)};
  }
  absl::Status Decode(size_t length) {
    return DecodeRequest(absl::MakeConstSpan(Slot()).subspan(0, length), {.hidden_size = 4, .num_experts = 4},
                         call_);
  }

  std::vector<float> hidden_, weights_;
  std::vector<ExpertId> experts_;
  std::vector<double> slot_;
  size_t length_ = 0;
  DecodedCall call_;
};

TEST_F(CodecTest, RequestsRoundTrip) {
  ASSERT_TRUE(Decode(length_).ok());
  EXPECT_EQ(call_.call_id, 7u);
  EXPECT_EQ(call_.view.instance, 0x123456789abcdef0u);
  EXPECT_EQ(call_.view.layer, 3);
  EXPECT_TRUE(call_.view.exact);
  EXPECT_EQ(std::vector<float>(call_.view.hidden.begin(), call_.view.hidden.end()), hidden_);
  EXPECT_EQ(call_.experts, experts_);
  EXPECT_EQ(call_.weights, weights_);
  EXPECT_EQ(call_.view.deferred_experts, 0);
}

TEST_F(CodecTest, DeferredExpertsRoundTrip) {
  length_ = EncodeRequest(8,
                          {.layer = 3,
                           .tokens = 2,
                           .experts_per_token = 2,
                           .deferred_experts = 1,
                           .hidden = hidden_,
                           .experts = experts_,
                           .weights = weights_},
                          Slot());
  ASSERT_TRUE(Decode(length_).ok());
  EXPECT_EQ(call_.view.deferred_experts, 1);
  SplitCall split;
  split.Split(call_.view);
  const LayerCallView& immediate = split.part(ReplyPart::kImmediate);
  const LayerCallView& deferred = split.part(ReplyPart::kDeferred);
  EXPECT_THAT(immediate.experts, ElementsAre(0, 2));
  EXPECT_THAT(immediate.weights, ElementsAre(0.1f, 0.3f));
  EXPECT_THAT(deferred.experts, ElementsAre(3, 1));
  EXPECT_THAT(deferred.weights, ElementsAre(0.2f, 0.4f));
  for (const LayerCallView* part : {&immediate, &deferred}) {
    EXPECT_EQ(part->layer, 3);
    EXPECT_EQ(part->tokens, 2);
    EXPECT_EQ(part->experts_per_token, 1);
    EXPECT_EQ(part->deferred_experts, 0);
    EXPECT_EQ(part->hidden.data(), call_.view.hidden.data());
  }
}

TEST_F(CodecTest, WithoutDeferredExpertsNothingIsCopied) {
  ASSERT_TRUE(Decode(length_).ok());
  SplitCall split;
  split.Split(call_.view);
  EXPECT_EQ(split.part(ReplyPart::kImmediate).experts.data(), call_.view.experts.data());
  EXPECT_EQ(split.part(ReplyPart::kDeferred).tokens, 0);
}

TEST_F(CodecTest, EveryWrongDescriptorIsRefused) {
  EXPECT_THAT(Decode(length_ - 1).ToString(), HasSubstr("expected"));
  EXPECT_THAT(Decode(10).ToString(), HasSubstr("at least 64"));
  const auto with = [&](size_t offset, int32_t value) {
    const auto saved = slot_;
    std::memcpy(Slot().data() + offset, &value, sizeof value);
    const std::string error = Decode(length_).ToString();
    slot_ = saved;
    return error;
  };
  EXPECT_THAT(with(20, 0), HasSubstr("0 tokens"));
  EXPECT_THAT(with(20, INT32_MAX), HasSubstr("tokens"));
  EXPECT_THAT(with(24, 1000), HasSubstr("experts per token"));
  EXPECT_THAT(with(28, 6), HasSubstr("flags"));
  EXPECT_THAT(with(32, 2), HasSubstr("2 deferred experts of 2 per token, expected 0 to 1"));
  EXPECT_THAT(with(32, -1), HasSubstr("-1 deferred experts"));
  EXPECT_THAT(with(64 + 32, 4), HasSubstr("expert id 4"));
  EXPECT_THAT(with(64 + 32, -2), HasSubstr("expert id -2, expected 0 to 3, or -1 for none"));
  EXPECT_EQ(with(64 + 32, kNoExpert), "OK");
}

TEST_F(CodecTest, RandomBytesNeverCrash) {
  std::mt19937 random(3);
  for (int round = 0; round < 20000; ++round) {
    const auto saved = slot_;
    for (int i = 0; i < 4; ++i) Slot()[random() % 128] = static_cast<std::byte>(random());
    if (Decode(random() % (length_ + 64)).ok()) {
      EXPECT_EQ(call_.view.hidden.size(), static_cast<size_t>(call_.view.tokens) * 4);
    }
    (void)DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, random() % 256), 7, 8);
    slot_ = saved;
  }
}

TEST_F(CodecTest, RepliesRoundTripAndCarryErrors) {
  const absl::Span<float> partial = ReplyPartial(Slot(), 2, 4);
  for (size_t i = 0; i < partial.size(); ++i) partial[i] = static_cast<float>(i);
  const size_t length = EncodeReply(9, absl::OkStatus(), 2, 4, Slot());
  const auto reply = DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, length), 9, 8);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ((*reply)[7], 7.0f);
  EXPECT_THAT(DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, length), 8, 8).status().ToString(),
              HasSubstr("expected 8"));
  const size_t error = EncodeReply(9, absl::InvalidArgumentError("layer 99"), 2, 4, Slot());
  EXPECT_THAT(DecodeReply(absl::MakeConstSpan(Slot()).subspan(0, error), 9, 8).status().ToString(),
              HasSubstr("layer 99"));
}

}  // namespace
}  // namespace numoe
