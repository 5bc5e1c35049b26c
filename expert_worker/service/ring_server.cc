#include "expert_worker/service/ring_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "common/base/log.h"
#include "common/base/status.h"
#include "common/transport/ring_channel.h"
#include "common/transport/shared_experts.h"
#include "common/transport/transport_limits.h"

namespace numoe {
namespace {

// How often blocked threads look at the stop flag.
constexpr int kStopPollMs = 50;
// A coordinator that connected but does not attach is given up after this.
constexpr int kAttachTimeoutMs = 5'000;

// Random, not by process id: the containers of a pod share the names of abstract sockets and are all process
// 1, and a coordinator that asks the wrong pod's name must find nobody instead of its own neighbour.
std::string UniqueName() {
  std::random_device random;
  return fmt::format("numoe-ring-{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random());
}

}  // namespace

absl::Status SharedExecutor::Execute(const LayerCallView& call, absl::Span<float> out) {
  const MutexLock lock(mutex_);
  calls_.fetch_add(1, std::memory_order_relaxed);
  rows_.fetch_add(call.experts.size(), std::memory_order_relaxed);
  return executor_.Execute(call, out);
}

absl::StatusOr<std::unique_ptr<RingServer>> RingServer::Start(SharedExecutor& executor,
                                                              const RingServerOptions& options) {
  auto server = std::unique_ptr<RingServer>(new RingServer(executor, options));
  server->name_ = UniqueName();
  server->listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, server->name_.data(), server->name_.size());  // leading 0: abstract
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + server->name_.size());
  if (server->listener_ < 0 || bind(server->listener_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(server->listener_, 16) != 0) {
    return absl::InternalError(fmt::format("ring socket {}: {}", server->name_, std::strerror(errno)));
  }
  server->accept_thread_ = std::thread([raw = server.get()] { raw->AcceptLoop(); });
  return server;
}

RingServer::~RingServer() {
  stop_.store(true);
  if (accept_thread_.joinable()) accept_thread_.join();
  if (listener_ >= 0) close(listener_);
}

void RingServer::AcceptLoop() {
  pthread_setname_np(pthread_self(), "ring-accept");
  while (!stop_.load()) {
    pollfd poll_entry{listener_, POLLIN, 0};
    const int ready = poll(&poll_entry, 1, kStopPollMs);
    Reap(/*all=*/false);
    if (ready <= 0) continue;
    const int socket = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (socket < 0) continue;
    Session& session = sessions_.emplace_back();
    session.thread = std::thread([this, socket, &session] {
      pthread_setname_np(pthread_self(), "ring-session");
      live_sessions_.fetch_add(1);
      Serve(socket);
      live_sessions_.fetch_sub(1);
      session.done.store(true);
    });
  }
  Reap(/*all=*/true);
}

void RingServer::Reap(bool all) {
  for (auto it = sessions_.begin(); it != sessions_.end();) {
    if (all || it->done.load()) {
      it->thread.join();
      it = sessions_.erase(it);
    } else {
      ++it;
    }
  }
}

bool RingServer::AwaitAttached(int socket) const {
  pollfd attached{socket, POLLIN, 0};
  char byte = 0;
  while (poll(&attached, 1, kAttachTimeoutMs) == 1 && read(socket, &byte, 1) == 1) {
    if (byte == kAttached) return true;
    if (byte != kWantExperts || options_.experts_fd < 0) return false;
    if (!SendDescriptor(socket, options_.experts_fd).ok()) return false;
  }
  return false;
}

void RingServer::Serve(int socket) {
  const CallShape& shape = options_.shape;
  absl::StatusOr<RingSegment> segment = RingSegment::Create(
      RequestBytes(limits::kCallTokensMax, options_.experts_per_token, shape.hidden_size));
  if (!segment.ok()) {
    LogError("shared-memory session: {}", segment.status().ToString());
    close(socket);
    return;
  }
  const int fd = segment->fd();
  RingChannel channel(*std::move(segment), Side::kWorker);
  channel.Hold();
  const bool ready = SendDescriptor(socket, fd).ok() && AwaitAttached(socket);
  DecodedCall call;
  SplitCall split;
  while (ready && !stop_.load()) {
    absl::StatusOr<absl::Span<const std::byte>> message = channel.Receive(kStopPollMs, options_.spin_us);
    if (absl::IsDeadlineExceeded(message.status())) continue;
    if (!message.ok()) {
      if (!absl::IsUnavailable(message.status()))
        LogWarning("shared-memory session ends: {}", message.status().ToString());
      break;
    }
    if (const absl::Status decoded = DecodeRequest(*message, shape, call); !decoded.ok()) {
      LogWarning("shared-memory session ends: {}", decoded.ToString());
      break;
    }
    split.Split(call.view);
    const auto answer = [&](ReplyPart part) {
      const absl::Span<std::byte> slot = channel.Outgoing(part);
      const int tokens = call.view.tokens;
      const absl::Status done =
          executor_.Execute(split.part(part), ReplyPartial(slot, tokens, shape.hidden_size));
      channel.Publish(EncodeReply(call.call_id, done, tokens, shape.hidden_size, slot), part);
    };
    answer(ReplyPart::kImmediate);
    if (call.view.deferred_experts > 0) answer(ReplyPart::kDeferred);
  }
  channel.Release();
  close(socket);
}

}  // namespace numoe
