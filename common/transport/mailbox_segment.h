// MailboxSegment: the shared memory through which a coordinator and a worker on the same host exchange layer
// calls.
//
// It is a sealed memfd. The worker creates, sizes, prefaults and seals it (so it can neither shrink while the
// peer uses it nor grow, nor lose pages once both have it mapped) and passes the descriptor over a Unix
// socket; no name exists that could be left behind. It contains three mailboxes of one message each (request,
// reply and deferred reply) and nothing else. Every byte can be written by the other process at any time, so
// it contains only numbers, each an atomic of its own, and no object of a library. Layout and protocol:
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

/// The mailbox of one direction. The sequence number is the futex word: it rises by one for each message.
struct alignas(64) Mailbox {
  alignas(64) std::atomic<uint32_t> published{0};  // messages published; set by the writer
  std::atomic<uint32_t> awake{
      0};  // 1 if the writer cannot wake a sleeper (it is a device), so the reader spins
  alignas(64) std::atomic<uint32_t> sleeping{0};  // 1 if the reader sleeps, or is about to
  alignas(64) std::atomic<uint64_t> length{0};    // bytes of the message; written before `published`
};

struct SegmentHeader {
  std::atomic<uint64_t> magic{0};
  std::atomic<uint64_t> slot_bytes{0};
  std::atomic<uint64_t> session{0};  // random number of the worker; the coordinator's heartbeats repeat it
  Mailbox mail[2];                   // one for each side that writes
  Mailbox deferred;                  // for the worker's second reply to a call
};

class MailboxSegment {
 public:
  /// For the worker: creates a segment whose slots hold `slot_bytes` each. `session` is not 0.
  static absl::StatusOr<MailboxSegment> Create(size_t slot_bytes, uint64_t session = 1);
  /// For the coordinator: maps what the worker passed, after checking its kind, seals, size and header. Slots
  /// have at most `slot_bytes_max` bytes, rounded up to whole pages.
  static absl::StatusOr<MailboxSegment> Attach(FileDescriptor fd, size_t slot_bytes_max);
  /// Returns the bytes of a segment with such slots.
  static size_t BytesFor(size_t slot_bytes);
  MailboxSegment(MailboxSegment&& other) noexcept;
  MailboxSegment& operator=(MailboxSegment&& other) noexcept;
  ~MailboxSegment();

  int fd() const { return fd_.get(); }
  /// Returns this side's copy of the number. The one in the segment is read once, when it is attached.
  size_t slot_bytes() const { return slot_bytes_; }
  uint64_t session() const { return session_; }
  /// For the worker, once both ends have it mapped: from now on no process can map it writable or free its
  /// pages, and existing mappings stay valid. Kernels before 5.1 lack this; the segment works there, too.
  void SealMappings() const;
  /// Returns where `side` writes its messages and the other side reads them.
  std::byte* slot(Side side) const;
  SegmentHeader& header() const { return *static_cast<SegmentHeader*>(base_); }
  /// Returns the whole segment.
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

/// Returns whether `fd` is a memory file with all of these seals (fcntl's F_SEAL_...). Other kinds of files
/// have no seals.
bool HasSeals(int fd, int seals);

/// Send and receive a descriptor over a connected Unix socket. UNAVAILABLE if the peer closed the socket.
/// INVALID_ARGUMENT if it sent none, or more than one; what it sent is closed.
absl::Status SendDescriptor(int socket, int fd);
absl::StatusOr<FileDescriptor> ReceiveDescriptor(int socket);

}  // namespace numoe
