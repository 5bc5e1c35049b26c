// RingChannel: one side of a ring segment: publish a message, wait for the next one, notice a dead peer.
//
// Waiting spins for spin_us (the next message of a step comes soon), then sleeps on a futex in short slices;
// a dead peer is noticed through its robust mutex within a slice, a stuck one at the deadline. Hold() must be
// called by the thread that lives as long as this side does. Send and Receive are each called by one thread.
// A worker's deferred replies have a mailbox of their own, in the second half of its slot.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/transport/layer_call.h"
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

  /// Where the next message is written; then Publish(length). Only the worker has a deferred part.
  absl::Span<std::byte> Outgoing(ReplyPart part = ReplyPart::kImmediate) const {
    return Slot(segment_, side_, part);
  }
  void Publish(size_t length, ReplyPart part = ReplyPart::kImmediate);
  /// The peer's next message, in place: valid until this side publishes. UNAVAILABLE: the peer is gone.
  /// DEADLINE_EXCEEDED after `deadline_ms` (negative: none). INVALID_ARGUMENT: a length beyond the slot.
  absl::StatusOr<absl::Span<const std::byte>> Receive(int64_t deadline_ms, int spin_us,
                                                      ReplyPart part = ReplyPart::kImmediate);
  bool PeerAlive();

  /// For a writer that is not this class and has no system calls (coordinator/device/cuda): keeps the peer's
  /// reader spinning, wakes it where it sleeps, and lets it sleep again.
  void HoldPeerAwake(bool awake);
  /// Messages that such a writer and reader exchanged meanwhile.
  void Advance(uint32_t received, ReplyPart part) { Received(part) += received; }
  uint32_t received(ReplyPart part) const { return received_[static_cast<size_t>(part)]; }
  /// Where the messages of a mailbox lie.
  static absl::Span<std::byte> Slot(const RingSegment& segment, Side writer, ReplyPart part);
  static Mailbox& Mail(const RingSegment& segment, Side writer, ReplyPart part);
  const RingSegment& segment() const { return segment_; }

 private:
  Side Peer() const { return side_ == Side::kCoordinator ? Side::kWorker : Side::kCoordinator; }
  uint32_t& Received(ReplyPart part) { return received_[static_cast<size_t>(part)]; }

  RingSegment segment_;
  const Side side_;
  uint32_t received_[2] = {};  // by ReplyPart
  std::atomic<bool> peer_died_{false};
};

}  // namespace numoe
