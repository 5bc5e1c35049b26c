// A mailbox segment between two real processes: messages, dead peers, stuck peers, and peers that write
// anything.
#include "common/transport/mailbox_channel.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/common/transport/sockets.h"

namespace numoe {
namespace {

using ::testing::HasSubstr;

struct Pair {
  std::unique_ptr<MailboxChannel> worker;
  std::unique_ptr<MailboxChannel> coordinator;
};

Pair MakePair(size_t slot_bytes) {
  absl::StatusOr<MailboxSegment> segment = MailboxSegment::Create(slot_bytes);
  EXPECT_TRUE(segment.ok()) << segment.status();
  absl::StatusOr<MailboxSegment> attached =
      MailboxSegment::Attach(FileDescriptor(dup(segment->fd())), slot_bytes);
  EXPECT_TRUE(attached.ok()) << attached.status();
  auto [worker, coordinator] = MakeSockets();
  return {std::make_unique<MailboxChannel>(*std::move(segment), Side::kWorker, std::move(worker)),
          std::make_unique<MailboxChannel>(*std::move(attached), Side::kCoordinator, std::move(coordinator))};
}

TEST(MailboxChannelTest, MessagesGoBothWaysInOrder) {
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

// A call's second reply may come before the first is read, or long after, with other calls of one reply in
// between. Contents, order and lengths are as requested.
TEST(MailboxChannelTest, DeferredRepliesComeSeparately) {
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

TEST(MailboxChannelTest, ADeferredLengthBeyondItsHalfIsRefused) {
  Pair pair = MakePair(4096);
  EXPECT_EQ(pair.worker->Outgoing(ReplyPart::kDeferred).size(), 2048u);
  pair.worker->Publish(2049, ReplyPart::kDeferred);
  EXPECT_EQ(pair.coordinator->Receive(60'000, 10, ReplyPart::kDeferred).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// A peer may write anything to the words; with `awake` the reader spins.
void ForgeLife(SegmentHeader& header) {
  for (Mailbox* mail : {&header.mail[0], &header.mail[1], &header.deferred}) {
    mail->awake.store(1);
    mail->sleeping.store(1);
  }
}

TEST(MailboxChannelTest, AKilledPeerIsNoticedWhateverItWrote) {
  for (const bool forges : {false, true}) {
    absl::StatusOr<MailboxSegment> segment = MailboxSegment::Create(4096);
    ASSERT_TRUE(segment.ok());
    auto [ours, theirs] = MakeSockets();
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
      close(ours.get());
      absl::StatusOr<MailboxSegment> mine = MailboxSegment::Attach(FileDescriptor(dup(segment->fd())), 4096);
      const MailboxChannel channel(*std::move(mine), Side::kCoordinator, std::move(theirs));
      if (forges) ForgeLife(channel.segment().header());
      (void)!write(ready[1], "x", 1);
      pause();
      _exit(0);
    }
    theirs = FileDescriptor();
    char byte;
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    MailboxChannel worker(*std::move(segment), Side::kWorker, std::move(ours));
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

TEST(MailboxChannelTest, AnUnexpectedByteEndsTheSession) {
  absl::StatusOr<MailboxSegment> segment = MailboxSegment::Create(4096);
  ASSERT_TRUE(segment.ok());
  auto [ours, theirs] = MakeSockets();
  MailboxChannel worker(*std::move(segment), Side::kWorker, std::move(ours));
  EXPECT_TRUE(worker.PeerAlive());
  ASSERT_EQ(write(theirs.get(), "?", 1), 1);
  EXPECT_FALSE(worker.PeerAlive());
  EXPECT_TRUE(absl::IsUnavailable(worker.Receive(-1, 0).status()));
}

TEST(MailboxChannelTest, CloseWakesThreadsThatWaitAtBothEnds) {
  Pair pair = MakePair(4096);
  std::thread waits([&] { EXPECT_TRUE(absl::IsUnavailable(pair.coordinator->Receive(-1, 0).status())); });
  pair.coordinator->Close();
  waits.join();
  EXPECT_TRUE(absl::IsUnavailable(pair.worker->Receive(-1, 0).status()));
}

TEST(MailboxChannelTest, AStuckPeerRunsIntoTheDeadline) {
  const Pair pair = MakePair(4096);
  EXPECT_EQ(pair.coordinator->Receive(20, 10).status().code(), absl::StatusCode::kDeadlineExceeded);
}

// A reader uses its own number, and a writer writes its own number next.
TEST(MailboxChannelTest, CountersThatAPeerWroteAreRefusedOrReplaced) {
  for (const uint32_t forged : {2u, 7u, 0xffffffffu}) {
    const Pair pair = MakePair(4096);
    Mailbox& mail = MailboxChannel::Mail(pair.worker->segment(), Side::kCoordinator, ReplyPart::kImmediate);
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

TEST(MailboxChannelTest, ALengthBeyondTheSlotIsRefused) {
  Pair pair = MakePair(4096);
  pair.worker->Publish(1u << 30);
  EXPECT_EQ(pair.coordinator->Receive(1000, 10).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace numoe
