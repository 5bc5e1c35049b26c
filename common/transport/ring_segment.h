// RingSegment: the shared memory through which one coordinator and one worker exchange layer calls on one
// host.
//
// A sealed memfd: the worker creates, sizes, prefaults and seals it (so it can neither shrink under the peer
// nor grow) and passes the descriptor over a Unix socket; nothing has a name that could be left behind. It
// holds three one-slot mailboxes (request, reply and deferred reply), and for each side a robust mutex that
// the side's session thread holds for its life: when the process dies the kernel marks it within
// microseconds, long before its sockets close. Layout and protocol: common/transport/CONTRACT.md. Move-only.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace numoe {

enum class Side : uint8_t { kCoordinator = 0, kWorker = 1 };

/// One direction. The sequence number is the futex word: it rises by one for each message.
struct alignas(64) Mailbox {
  alignas(64) std::atomic<uint32_t> published{0};  // messages published; the writer's
  std::atomic<uint32_t> awake{0};  // 1: the writer cannot wake a sleeper (it is a device): the reader spins
  alignas(64) std::atomic<uint32_t> sleeping{0};  // 1: the reader sleeps, or is about to
  alignas(64) uint64_t length = 0;                // bytes of the message; written before `published`
};

struct SegmentHeader {
  uint64_t magic;
  uint64_t slot_bytes;
  pthread_mutex_t alive[2];  // by Side
  Mailbox mail[2];           // by the side that writes it
  Mailbox deferred;          // the worker's second reply to a call
};

class RingSegment {
 public:
  /// Worker: a new segment whose slots hold `slot_bytes` each.
  static absl::StatusOr<RingSegment> Create(size_t slot_bytes);
  /// Coordinator: maps what the worker passed; checks size, magic and seals. Takes the descriptor.
  static absl::StatusOr<RingSegment> Attach(int fd);
  RingSegment(RingSegment&& other) noexcept;
  RingSegment& operator=(RingSegment&& other) noexcept;
  ~RingSegment();

  int fd() const { return fd_; }
  size_t slot_bytes() const { return slot_bytes_; }
  /// Where `side` writes its messages, and the other reads them.
  std::byte* slot(Side side) const;
  SegmentHeader& header() const { return *static_cast<SegmentHeader*>(base_); }
  /// All of it.
  absl::Span<std::byte> bytes() const { return {static_cast<std::byte*>(base_), bytes_}; }

 private:
  RingSegment() = default;
  absl::Status Map();

  int fd_ = -1;
  void* base_ = nullptr;
  size_t bytes_ = 0;
  size_t slot_bytes_ = 0;
};

/// Sends a descriptor over a connected Unix socket / receives one.
absl::Status SendDescriptor(int socket, int fd);
absl::StatusOr<int> ReceiveDescriptor(int socket);

}  // namespace numoe
