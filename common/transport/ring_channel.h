// RingChannel: one side of a ring segment: publish a message, wait for the next one, notice a dead peer.
//
// Waiting spins for spin_us (the next message of a step comes soon), then sleeps on a futex in short slices;
// a dead peer is noticed through its robust mutex within a slice, a stuck one at the deadline. Hold() must be
// called by the thread that lives as long as this side does. Send and Receive are each called by one thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/ring_segment.h"

namespace numoe {

class RingChannel {
 public:
  RingChannel(RingSegment segment, Side side) : segment_(std::move(segment)), side_(side) {}
  RingChannel(const RingChannel&) = delete;
  RingChannel& operator=(const RingChannel&) = delete;

  /// Marks this side alive, until Release or the death of the calling thread's process.
  void Hold();
  void Release();

  /// Where the next message is written; then Publish(length).
  absl::Span<std::byte> Outgoing() const { return {segment_.slot(side_), segment_.slot_bytes()}; }
  void Publish(size_t length);
  /// The peer's next message, in place: valid until this side publishes. UNAVAILABLE: the peer is gone.
  /// DEADLINE_EXCEEDED after `deadline_ms` (negative: none). INVALID_ARGUMENT: a length beyond the slot.
  absl::StatusOr<absl::Span<const std::byte>> Receive(int64_t deadline_ms, int spin_us);
  bool PeerAlive();

  /// For a writer that is not this class and has no system calls (coordinator/device/cuda): keeps the peer's
  /// reader spinning, wakes it where it sleeps, and lets it sleep again.
  void HoldPeerAwake(bool awake);
  /// Messages that such a writer and reader exchanged meanwhile.
  void Advance(uint32_t received) { received_ += received; }
  uint32_t received() const { return received_; }
  const RingSegment& segment() const { return segment_; }

 private:
  Side Peer() const { return side_ == Side::kCoordinator ? Side::kWorker : Side::kCoordinator; }
  Mailbox& Mail(Side writer) const { return segment_.header().mail[static_cast<int>(writer)]; }
  bool SpinFor(uint32_t seen, int spin_us) const;

  RingSegment segment_;
  const Side side_;
  uint32_t received_ = 0;
  std::atomic<bool> peer_died_{false};
};

}  // namespace numoe
