// MailboxServer: hands out mailbox segments to coordinators on this host and serves layer calls through them.
//
// Listens on an abstract Unix socket (no file to leave behind, but no permissions either: the kernel says who
// connects, and others than our own user, root and the group of the options are refused before anything is
// made for them). Each connection is one session with a thread of its own, which creates the segment and
// answers calls until the coordinator goes away; there are at most limits::kMailboxSessionsMax of them, and
// one that leaves before it has attached is given up at once. One whose coordinator is connected and silent
// for long ends, too. A session's thread is bound to the worker's CPUs before it makes its segment, which
// lies on the worker's nodes. All sessions, those over gRPC included, share one SharedExecutor, whose mutex
// lets one call run at a time. The destructor ends all sessions.
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
#include "expert_worker/service/mailbox_place.h"

namespace numoe::worker {

struct MailboxServerOptions {
  CallShape shape;
  int experts_per_token = 8;
  int spin_us = 200;           // between calls of a step
  int experts_fd = -1;         // of the weights, for coordinators that ask; -1: they are not shared
  std::optional<gid_t> group;  // whose processes may connect, too
  // Of a coordinator that lives, but says and asks nothing: it is stopped.
  std::chrono::milliseconds silence_max{10'000};
  // A coordinator that connected but does not attach is given up after this.
  std::chrono::milliseconds attach_max{5'000};
  CallerThreads* callers = nullptr;  // that sessions' threads are of; null: they run anywhere
  std::vector<int> nodes = {};       // that segments should lie on, OS numbers; empty: anywhere
};

/// Serialises calls of all sessions, over shared memory and streams alike, and counts them. Refuses what is
/// for another process than this one: it may hold another slice.
class SharedExecutor {
 public:
  SharedExecutor(LayerExecutor& executor, uint64_t instance) : instance_(instance), executor_(executor) {}
  /// FAILED_PRECONDITION: the call is for another instance.
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

  /// Abstract socket name that the handshake passes on.
  const std::string& socket_name() const { return name_; }
  int sessions() const { return live_sessions_.load(); }
  /// The coordinator of this session lives. A session whose coordinator neither calls nor is noted here for
  /// `silence_max` ends. Any thread; a number that no session has is nobody's.
  void NoteSign(uint64_t session);
  /// The least share of a session's segment that lies on the nodes of the options; nullopt: not known.
  std::optional<double> mailboxes_local() const { return places_.least(); }

 private:
  struct Session {
    std::thread thread;
    std::atomic<bool> done{false};
  };
  MailboxServer(SharedExecutor& executor, const MailboxServerOptions& options)
      : executor_(executor), options_(options) {}
  void AcceptLoop();
  // Whether the connection may become a session; says in the log why not.
  bool MayEnter(int socket);
  void Refuse(const absl::Status& status);
  void Serve(FileDescriptor socket);
  // Hands out what the coordinator asks for until it has attached; false: it left, or took too long.
  bool AwaitAttached(int socket) const;
  // Whether the session's coordinator has kept silent for too long.
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
  MailboxPlaces places_;
  mutable Mutex mutex_;
  std::map<uint64_t, std::chrono::steady_clock::time_point> signs_ ABSL_GUARDED_BY(mutex_);  // of life
  // Accept thread only.
  std::list<Session> sessions_;
  std::chrono::steady_clock::time_point next_refusal_line_;  // of the log
  uint64_t refused_ = 0;                                     // since the last such line
  std::thread accept_thread_;
};

}  // namespace numoe::worker
