#include "common/transport/mailbox_channel.h"

#include <fmt/format.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "common/base/check.h"

namespace numoe {
namespace {

using Clock = std::chrono::steady_clock;

// How often a sleeping side checks its peer.
constexpr timespec kSlice{0, 500'000};
constexpr int kSpinsPerCheck = 64;
constexpr int kAwakeSpinUs = 500;  // as long as a sleep, so that a dead peer is noticed as fast

void FutexWait(std::atomic<uint32_t>& word, uint32_t seen) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAIT, seen, &kSlice, nullptr, 0);
}
void FutexWake(std::atomic<uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

bool SpinFor(const Mailbox& mail, uint32_t seen, int spin_us) {
  const Clock::time_point until = Clock::now() + std::chrono::microseconds(spin_us);
  do {
    for (int i = 0; i < kSpinsPerCheck; ++i) {
      if (mail.published.load(std::memory_order_acquire) != seen) return true;
      _mm_pause();
    }
  } while (Clock::now() < until);
  return false;
}

}  // namespace

bool MailboxChannel::PeerAlive() const {
  // The byte is left in the socket, so a socket that was closed, or has an unexpected byte, shows it each
  // time.
  char byte = 0;
  ssize_t got = 0;
  do {
    got = recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  return got < 0 && errno == EAGAIN;
}

void MailboxChannel::Close() { shutdown(socket_.get(), SHUT_RDWR); }

absl::Span<std::byte> MailboxChannel::Slot(const MailboxSegment& segment, Side writer, ReplyPart part) {
  const absl::Span<std::byte> all(segment.slot(writer), segment.slot_bytes());
  NUMOE_DCHECK_EQ(all.size() % 2, 0u);
  return part == ReplyPart::kImmediate ? all
                                       : all.subspan(all.size() / 2);  // a slot is a whole number of pages
}

Mailbox& MailboxChannel::Mail(const MailboxSegment& segment, Side writer, ReplyPart part) {
  NUMOE_CHECK(part == ReplyPart::kImmediate || writer == Side::kWorker);
  SegmentHeader& header = segment.header();
  return part == ReplyPart::kImmediate ? header.mail[static_cast<int>(writer)] : header.deferred;
}

void MailboxChannel::Publish(size_t length, ReplyPart part) {
  Mailbox& mail = Mail(segment_, side_, part);
  mail.length.store(length, std::memory_order_relaxed);
  // Sequentially consistent with the reader's sleeping flag, so one of the two sees the other's write.
  mail.published.store(++sent_[static_cast<size_t>(part)]);
  if (mail.sleeping.load() != 0) FutexWake(mail.published);
}

void MailboxChannel::Advance(uint32_t calls, uint32_t deferred) {
  sent_[static_cast<size_t>(ReplyPart::kImmediate)] += calls;
  received_[static_cast<size_t>(ReplyPart::kImmediate)] += calls;
  received_[static_cast<size_t>(ReplyPart::kDeferred)] += deferred;
}

void MailboxChannel::HoldPeerAwake(bool awake) {
  Mailbox& mail = Mail(segment_, side_, ReplyPart::kImmediate);
  mail.awake.store(awake ? 1 : 0);
  if (awake && mail.sleeping.load() != 0) FutexWake(mail.published);
}

absl::StatusOr<absl::Span<const std::byte>> MailboxChannel::Receive(int64_t deadline_ms, int spin_us,
                                                                    ReplyPart part) {
  Mailbox& mail = Mail(segment_, Peer(), part);
  uint32_t& received = received_[static_cast<size_t>(part)];
  const Clock::time_point start = Clock::now();
  if (!SpinFor(mail, received, spin_us)) {
    while (mail.published.load(std::memory_order_acquire) == received) {
      if (!PeerAlive()) return absl::UnavailableError("the peer of the shared-memory session is gone");
      if (deadline_ms >= 0 && Clock::now() - start > std::chrono::milliseconds(deadline_ms)) {
        return absl::DeadlineExceededError(
            fmt::format("no answer through shared memory for {} ms", deadline_ms));
      }
      if (mail.awake.load() != 0) {
        SpinFor(mail, received, kAwakeSpinUs);
        continue;
      }
      mail.sleeping.store(1);
      // A writer that keeps us awake reads `sleeping` after it has set `awake`, so one of the two sees the
      // other's write.
      if (mail.published.load() == received && mail.awake.load() == 0) FutexWait(mail.published, received);
      mail.sleeping.store(0);
    }
  }
  // The length is copied once and the copy is checked.
  const uint32_t published = mail.published.load(std::memory_order_acquire);
  const uint64_t length = mail.length.load(std::memory_order_relaxed);
  if (published != received + 1) {
    return absl::InvalidArgumentError(
        fmt::format("the peer's counter of messages is {}, expected {}: it has more than one call in flight",
                    published, received + 1));
  }
  NUMOE_DCHECK(part == ReplyPart::kImmediate || side_ == Side::kCoordinator);
  ++received;
  const absl::Span<const std::byte> slot = Slot(segment_, Peer(), part);
  if (length > slot.size()) {
    return absl::InvalidArgumentError(
        fmt::format("the peer published {} bytes in a slot of {}", length, slot.size()));
  }
  return slot.subspan(0, length);
}

}  // namespace numoe
