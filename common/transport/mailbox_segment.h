// MailboxSegment: the shared memory through which one coordinator and one worker exchange layer calls on one
// host.
//
// A sealed memfd: the worker creates, sizes, prefaults and seals it (so it can neither shrink under the peer
// nor grow, nor, once both have it mapped, lose pages) and passes the descriptor over a Unix socket; nothing
// has a name that could be left behind. It holds three mailboxes of one message each (request, reply and
// deferred reply) and nothing else: every byte can be written by the other process at any time, so there are
// numbers here, each an atomic of its own, and no object of a library. Layout and protocol:
// common/transport/CONTRACT.md. Move-only.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_descriptor.h"

namespace numoe {

enum class Side : uint8_t { kCoordinator = 0, kWorker = 1 };

/// One direction. The sequence number is the futex word: it rises by one for each message.
struct alignas(64) Mailbox {
  alignas(64) std::atomic<uint32_t> published{0};  // messages published; the writer's
  std::atomic<uint32_t> awake{0};  // 1: the writer cannot wake a sleeper (it is a device): the reader spins
  alignas(64) std::atomic<uint32_t> sleeping{0};  // 1: the reader sleeps, or is about to
  alignas(64) std::atomic<uint64_t> length{0};    // bytes of the message; written before `published`
};

struct SegmentHeader {
  std::atomic<uint64_t> magic{0};
  std::atomic<uint64_t> slot_bytes{0};
  std::atomic<uint64_t> session{0};  // drawn by the worker; the coordinator's signs of life repeat it
  Mailbox mail[2];                   // by the side that writes it
  Mailbox deferred;                  // the worker's second reply to a call
};

class MailboxSegment {
 public:
  /// Worker: a new segment whose slots hold `slot_bytes` each. `session` is not 0.
  static absl::StatusOr<MailboxSegment> Create(size_t slot_bytes, uint64_t session = 1);
  /// Coordinator: maps what the worker passed, after it has checked kind, seals, size and header. Slots have
  /// at most `slot_bytes_max` bytes, and what whole pages add.
  static absl::StatusOr<MailboxSegment> Attach(FileDescriptor fd, size_t slot_bytes_max);
  /// What a segment with such slots takes.
  static size_t BytesFor(size_t slot_bytes);
  MailboxSegment(MailboxSegment&& other) noexcept;
  MailboxSegment& operator=(MailboxSegment&& other) noexcept;
  ~MailboxSegment();

  int fd() const { return fd_.get(); }
  /// This side's own number: the one in the segment is read once, when it is attached.
  size_t slot_bytes() const { return slot_bytes_; }
  uint64_t session() const { return session_; }
  /// Worker, once both ends have it mapped: nobody maps it to be written any more or gives its pages up, and
  /// what is mapped stays so. Kernels before 5.1 cannot; the segment works there, too.
  void SealMappings() const;
  /// Where `side` writes its messages, and the other reads them.
  std::byte* slot(Side side) const;
  SegmentHeader& header() const { return *static_cast<SegmentHeader*>(base_); }
  /// All of it.
  absl::Span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), bytes_}; }

 private:
  MailboxSegment() = default;
  absl::Status Map();

  FileDescriptor fd_;
  void* base_ = nullptr;
  size_t bytes_ = 0;
  size_t slot_bytes_ = 0;
  uint64_t session_ = 0;
};

/// Whether `fd` is a memory file with all of these seals (fcntl's F_SEAL_...). A file of another kind has
/// none.
bool HasSeals(int fd, int seals);

/// Sends a descriptor over a connected Unix socket / receives one. UNAVAILABLE: the peer closed the socket.
/// INVALID_ARGUMENT: it sent none, or more than one; what it sent is closed.
absl::Status SendDescriptor(int socket, int fd);
absl::StatusOr<FileDescriptor> ReceiveDescriptor(int socket);

}  // namespace numoe
