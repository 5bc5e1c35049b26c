// MailboxServer: gives mailbox segments to coordinators on this host and serves layer calls through them.
//
// It listens on an abstract Unix socket, which leaves no file behind but has no permissions either. So the
// kernel is asked who connects, and processes of users other than our own, root and the group of the options
// are refused before anything is allocated for them. Each connection is one session with a thread of its own,
// which creates the segment and answers calls until the coordinator goes away. There are at most
// limits::kMailboxSessionsMax sessions. A session ends at once if its coordinator leaves before it has
// attached, and after a while if its coordinator stays connected but is silent. A session's thread is bound
// to the worker's CPUs before it allocates its segment, which is on the worker's nodes. All sessions,
// including those over gRPC, share one SharedExecutor, whose mutex lets one call run at a time. The
// destructor ends all sessions.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/file_descriptor.h"
#include "common/base/mutex.h"
#include "common/threading/caller_threads.h"
#include "common/transport/call_codec.h"
#include "common/transport/layer_call.h"
#include "common/transport/mailbox_channel.h"
#include "expert_worker/service/mailbox_placement.h"

namespace numoe::worker {

struct MailboxServerOptions {
  CallShape shape;
  int experts_per_token = 8;
  int spin_us = 200;  // how long to spin between calls of a step
  int experts_fd =
      -1;  // file descriptor of the weights for coordinators that ask for them; -1 if they are not shared
  std::optional<gid_t> group;  // processes of this group may connect, too
  // A session ends if its coordinator lives, but neither calls nor gives a sign of life for this time: it is
  // stopped.
  std::chrono::milliseconds silence_max{10'000};
  // A coordinator that connected but does not attach is dropped after this time.
  std::chrono::milliseconds attach_max{5'000};
  CallerThreads* callers = nullptr;  // to which the sessions' threads belong; null means they run anywhere
  std::vector<int> nodes = {};       // where segments should be, OS numbers; empty means any node
};

/// Serialises the calls of all sessions, over shared memory and gRPC alike, and counts them. Refuses calls
/// that are meant for an earlier process at this address, because that may have held another slice.
class SharedExecutor {
 public:
  SharedExecutor(LayerExecutor& executor, uint64_t instance) : instance_(instance), executor_(executor) {}
  /// FAILED_PRECONDITION if the call is for another instance.
  absl::Status Execute(const LayerCallView& call, absl::Span<float> out);
  uint64_t instance() const { return instance_; }
  uint64_t calls() const { return calls_.load(); }
  uint64_t rows() const { return rows_.load(); }

 private:
  const uint64_t instance_;
  Mutex mutex_;
  LayerExecutor& executor_ ABSL_GUARDED_BY(mutex_);
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> rows_{0};
};

class MailboxServer {
 public:
  static absl::StatusOr<std::unique_ptr<MailboxServer>> Start(SharedExecutor& executor,
                                                              const MailboxServerOptions& options);
  ~MailboxServer();

  /// Returns the name of the abstract socket, which the handshake passes on.
  const std::string& socket_name() const { return name_; }
  int sessions() const { return live_sessions_.load(); }
  /// Records that the coordinator of this session is alive. A session ends if its coordinator neither calls
  /// nor is recorded here for `silence_max`. Any thread; numbers of no session are ignored.
  void NoteSign(uint64_t session);
  /// Returns the smallest share of a session's segment that is on the nodes of the options; nullopt if not
  /// known.
  std::optional<double> mailboxes_local() const { return placements_.least(); }

 private:
  struct Session {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  MailboxServer(SharedExecutor& executor, const MailboxServerOptions& options)
      : executor_(executor), options_(options) {}
  void AcceptLoop();
  // Returns whether the connection may become a session; logs why not.
  bool MayEnter(int socket);
  void Refuse(const absl::Status& status);
  void Serve(FileDescriptor socket);
  // Sends what the coordinator asks for until it has attached. Returns false if it left, or took too long.
  bool AwaitAttached(int socket) const;
  // Returns whether the session's coordinator has been silent for too long.
  bool IsSilent(uint64_t session) const;
  void ForgetSession(uint64_t session);
  absl::Status ServeCall(MailboxChannel& channel, DecodedCall& call, SplitCall& split);
  void Reap(bool all);

  SharedExecutor& executor_;
  const MailboxServerOptions options_;
  std::string name_;
  FileDescriptor listener_;
  std::atomic<bool> stop_{false};
  std::atomic<int> live_sessions_{0};
  MailboxPlacements placements_;
  mutable Mutex mutex_;
  std::map<uint64_t, std::chrono::steady_clock::time_point> signs_
      ABSL_GUARDED_BY(mutex_);  // last signs of life
  // Used by the accept thread only.
  std::list<Session> sessions_;
  std::chrono::steady_clock::time_point next_refusal_line_;  // in the log
  uint64_t refused_ = 0;                                     // since the last such line
  std::thread accept_thread_;
};

}  // namespace numoe::worker
