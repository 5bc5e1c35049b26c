#include "expert_worker/service/mailbox_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/base/random_id.h"
#include "common/base/status.h"
#include "common/transport/mapped_weights.h"
#include "common/transport/peer_credentials.h"
#include "common/transport/transport_limits.h"

namespace numoe::worker {
namespace {

// How often blocked threads read the stop flag.
constexpr int kStopPollMs = 50;
// The time between two log lines about refused processes, because a process may try forever.
constexpr std::chrono::seconds kRefusalLineInterval(10);

// The name is random instead of containing the process id, because the containers of a pod share the names of
// abstract sockets, and all are process 1. So a coordinator that has the wrong pod's name finds no socket,
// and not the worker next to it.
std::string UniqueName() { return fmt::format("numoe-mailbox-{:016x}{:016x}", RandomId(), RandomId()); }

}  // namespace

absl::Status SharedExecutor::Execute(const LayerCallView& call, absl::Span<float> out) {
  if (call.instance != instance_) {
    return absl::FailedPreconditionError(
        fmt::format("the call is for worker process {:016x}, but this is worker process {:016x}: it was "
                    "started after the "
                    "coordinator's handshake; connect to it again",
                    call.instance, instance_));
  }
  const MutexLock lock(mutex_);
  NUMOE_CHECK_EQ(call.experts.size(), call.weights.size());
  NUMOE_CHECK_EQ(out.size(), call.hidden.size());
  calls_.fetch_add(1, std::memory_order_relaxed);
  rows_.fetch_add(call.experts.size(), std::memory_order_relaxed);
  return executor_.Execute(call, out);
}

absl::StatusOr<std::unique_ptr<MailboxServer>> MailboxServer::Start(SharedExecutor& executor,
                                                                    const MailboxServerOptions& options) {
  auto server = std::unique_ptr<MailboxServer>(new MailboxServer(executor, options));
  server->name_ = UniqueName();
  server->listener_ = FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int listener = server->listener_.get();
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  NUMOE_CHECK_LT(server->name_.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path + 1, server->name_.data(),
              server->name_.size());  // a leading 0 means an abstract name
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + server->name_.size());
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, static_cast<int>(limits::kMailboxSessionsMax)) != 0) {
    return absl::InternalError(fmt::format("mailbox socket {}: {}", server->name_, std::strerror(errno)));
  }
  server->accept_thread_ = std::thread([raw = server.get()] { raw->AcceptLoop(); });
  return server;
}

MailboxServer::~MailboxServer() {
  stop_.store(true);
  if (accept_thread_.joinable()) accept_thread_.join();
  NUMOE_CHECK_EQ(live_sessions_.load(), 0) << "the accept thread must have joined all sessions";
}

void MailboxServer::AcceptLoop() {
  pthread_setname_np(pthread_self(), "mailbox-accept");
  while (!stop_.load()) {
    pollfd poll_entry{listener_.get(), POLLIN, 0};
    const int ready = poll(&poll_entry, 1, kStopPollMs);
    Reap(/*all=*/false);
    if (ready <= 0) continue;
    FileDescriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (socket.get() < 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(kStopPollMs));  // no descriptor is free
    if (socket.get() < 0 || !MayEnter(socket.get())) continue;
    Session& session = sessions_.emplace_back();
    try {
      session.thread = std::thread([this, socket = std::move(socket), &session]() mutable {
        pthread_setname_np(pthread_self(), "mailbox-session");
        live_sessions_.fetch_add(1);
        Serve(std::move(socket));
        live_sessions_.fetch_sub(1);
        session.done.store(true);
      });
    } catch (const std::system_error& error) {
      sessions_.pop_back();
      Refuse(absl::ResourceExhaustedError(
          fmt::format("no thread for another session: {}; raise the limit of processes (pids.max, ulimit -u)",
                      error.what())));
    }
  }
  Reap(/*all=*/true);
}

bool MailboxServer::MayEnter(int socket) {
  absl::Status status = CheckPeerOf(socket, options_.group);
  if (status.ok() && sessions_.size() >= limits::kMailboxSessionsMax) {
    status = absl::ResourceExhaustedError(
        fmt::format("{} coordinators are connected, expected at most {}; end some of them", sessions_.size(),
                    limits::kMailboxSessionsMax));
  }
  if (!status.ok()) Refuse(status);
  return status.ok();
}

void MailboxServer::Refuse(const absl::Status& status) {
  ++refused_;
  const auto now = std::chrono::steady_clock::now();
  if (now < next_refusal_line_) return;
  LogWarning("shared memory was refused, {} times since the last such line: {}", refused_,
             std::string(status.message()));
  refused_ = 0;
  next_refusal_line_ = now + kRefusalLineInterval;
}

void MailboxServer::Reap(bool all) {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    if (all || it->done.load()) {
      NUMOE_CHECK(it->thread.joinable());
      it->thread.join();
      it = sessions_.erase(it);
    } else {
      ++it;
    }
  }
}

bool MailboxServer::AwaitAttached(int socket) const {
  const auto deadline = std::chrono::steady_clock::now() + options_.attach_max;
  bool may_ask = options_.experts_fd >= 0;  // for the weights' descriptor, which is sent once
  while (!stop_.load() && std::chrono::steady_clock::now() < deadline) {
    pollfd said{socket, POLLIN, 0};
    const int ready = poll(&said, 1, kStopPollMs);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    char byte = 0;
    if (ready < 0 || read(socket, &byte, 1) != 1) return false;  // the coordinator left
    if (byte == kAttached) return true;
    if (byte != kWantWeights || !may_ask) return false;
    may_ask = false;
    if (!SendDescriptor(socket, options_.experts_fd).ok()) return false;
  }
  return false;
}

void MailboxServer::Serve(FileDescriptor socket) {
  const ScopedCaller caller(options_.callers);
  absl::StatusOr<MailboxSegment> segment = CreateMailboxOn(
      options_.nodes,
      RequestBytes(limits::kCallTokensMax, options_.experts_per_token, options_.shape.hidden_size),
      RandomId());  // only the two ends know this number
  if (!segment.ok()) return LogError("shared-memory session: {}", segment.status().ToString());
  if (!SendDescriptor(socket.get(), segment->fd()).ok() || !AwaitAttached(socket.get())) return;
  segment->SealMappings();
  const uint64_t session = segment->session();
  {
    const MutexLock lock(mutex_);
    signs_[session] = std::chrono::steady_clock::now();
  }
  const ScopedMailboxPlacement placement(placements_, *segment, options_.nodes);
  MailboxChannel channel(*std::move(segment), Side::kWorker, std::move(socket));
  DecodedCall call;
  SplitCall split;
  // If the peer is gone, the session is over, even if another process still writes into the segment.
  while (!stop_.load() && channel.PeerAlive()) {
    const absl::Status served = ServeCall(channel, call, split);
    if (served.ok()) {
      NoteSign(session);
    } else if (!absl::IsDeadlineExceeded(served)) {
      if (!absl::IsUnavailable(served)) LogWarning("shared-memory session ends: {}", served.ToString());
      break;
    } else if (IsSilent(session)) {
      LogWarning(
          "shared-memory session ends: its coordinator is connected but gave no sign of life for {} ms: "
          "it is stopped, or it cannot reach this worker's gRPC service",
          options_.silence_max.count());
      break;
    }
  }
  ForgetSession(session);
}

void MailboxServer::NoteSign(uint64_t session) {
  const MutexLock lock(mutex_);
  if (const auto found = signs_.find(session); found != signs_.end())
    found->second = std::chrono::steady_clock::now();
}

bool MailboxServer::IsSilent(uint64_t session) const {
  const MutexLock lock(mutex_);
  return std::chrono::steady_clock::now() - signs_.at(session) > options_.silence_max;
}

void MailboxServer::ForgetSession(uint64_t session) {
  const MutexLock lock(mutex_);
  const size_t forgotten = signs_.erase(session);
  NUMOE_CHECK_EQ(forgotten, size_t{1}) << "Serve records every session";
}

absl::Status MailboxServer::ServeCall(MailboxChannel& channel, DecodedCall& call, SplitCall& split) {
  ASSIGN_OR_RETURN(const absl::Span<const std::byte> message, channel.Receive(kStopPollMs, options_.spin_us));
  RETURN_IF_ERROR(DecodeRequest(message, options_.shape, call));
  split.Split(call.view);
  NUMOE_DCHECK_LT(call.view.deferred_experts, call.view.experts_per_token)
      << "DecodeRequest refuses such calls";
  const auto answer = [&](ReplyPart part) {
    const absl::Span<std::byte> slot = channel.Outgoing(part);
    const int tokens = call.view.tokens, hidden_size = options_.shape.hidden_size;
    const absl::Status done = executor_.Execute(split.part(part), ReplyPartial(slot, tokens, hidden_size));
    channel.Publish(EncodeReply(call.call_id, done, tokens, hidden_size, slot), part);
  };
  answer(ReplyPart::kImmediate);
  if (call.view.deferred_experts > 0) answer(ReplyPart::kDeferred);
  return absl::OkStatus();
}

}  // namespace numoe::worker
