// MailboxChannel: one side of a mailbox segment. It publishes messages, waits for the next one, and notices a
// dead peer.
//
// A wait spins for spin_us, because the next message of a step comes soon, and then sleeps on a futex in
// short slices. The session exists as long as the socket over which the segment was passed is connected: the
// kernel closes a dead process's end of it, and nothing that a peer writes into the segment can keep a
// session alive. A dead peer is noticed within a slice, and a stuck one at the deadline. What the peer may
// write is read once for each decision and checked; this side's own numbers (messages sent and received,
// sizes) are kept outside of the segment. One thread each calls Publish and Receive; any thread may call
// PeerAlive and Close. A worker's deferred replies have a mailbox of their own, in the second half of its
// slot.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_descriptor.h"
#include "common/transport/layer_call.h"
#include "common/transport/mailbox_segment.h"

namespace numoe {

class MailboxChannel {
 public:
  /// `socket` is connected to the peer. From now on neither side sends anything through it.
  MailboxChannel(MailboxSegment segment, Side side, FileDescriptor socket)
      : segment_(std::move(segment)), side_(side), socket_(std::move(socket)) {}
  MailboxChannel(const MailboxChannel&) = delete;
  MailboxChannel& operator=(const MailboxChannel&) = delete;

  /// Returns where the next message is written; call Publish(length) afterwards. Only the worker has a
  /// deferred part.
  absl::Span<std::byte> Outgoing(ReplyPart part = ReplyPart::kImmediate) const {
    return Slot(segment_, side_, part);
  }
  void Publish(size_t length, ReplyPart part = ReplyPart::kImmediate);
  /// Returns the peer's next message in place, valid until this side publishes. UNAVAILABLE if the peer is
  /// gone, or if one of the two closed the session. DEADLINE_EXCEEDED after `deadline_ms` (negative means no
  /// deadline). INVALID_ARGUMENT if the length is beyond the slot, or if the counter did not rise by one.
  absl::StatusOr<absl::Span<const std::byte>> Receive(int64_t deadline_ms, int spin_us,
                                                      ReplyPart part = ReplyPart::kImmediate);
  /// Returns false permanently once the other end of the socket is closed, or has sent a byte that is not
  /// expected.
  bool PeerAlive() const;
  /// Ends the session for both sides; a thread that waits in Receive returns.
  void Close();

  /// For a writer that is not this class and cannot make system calls (coordinator/execution/device/cuda):
  /// keeps the peer's reader spinning, wakes it if it sleeps, and lets it sleep again.
  void HoldPeerAwake(bool awake);
  /// Counts messages that such a writer and reader exchanged meanwhile: requests and their replies, and
  /// deferred replies.
  void Advance(uint32_t calls, uint32_t deferred);
  uint32_t sent(ReplyPart part) const { return sent_[static_cast<size_t>(part)]; }
  uint32_t received(ReplyPart part) const { return received_[static_cast<size_t>(part)]; }
  /// Returns where the messages of a mailbox are.
  static absl::Span<std::byte> Slot(const MailboxSegment& segment, Side writer, ReplyPart part);
  static Mailbox& Mail(const MailboxSegment& segment, Side writer, ReplyPart part);
  const MailboxSegment& segment() const { return segment_; }

 private:
  Side Peer() const { return side_ == Side::kCoordinator ? Side::kWorker : Side::kCoordinator; }

  MailboxSegment segment_;
  const Side side_;
  const FileDescriptor socket_;
  uint32_t sent_[2] = {}, received_[2] = {};  // by ReplyPart
};

}  // namespace numoe
