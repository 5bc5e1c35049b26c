#include "coordinator/router/forward_task.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"
#include "common/base/log.h"
#include "common/observe/logging.h"
#include "coordinator/net/client/client_limits.h"
#include "coordinator/router/backend_health.h"
#include "coordinator/router/forwarded_head.h"
#include "coordinator/router/router_limits.h"

namespace numoe::router {

ForwardTask::ForwardTask(Backends& backends, std::shared_ptr<net::Exchange> exchange, bool repeatable)
    : backends_(backends), exchange_(std::move(exchange)), repeatable_(repeatable) {}

void ForwardTask::Start(PromptPrefix prompt) {
  prompt_ = std::move(prompt);
  Begin(backends_.balancer().Route(prompt_, tried_));
}

void ForwardTask::StartAt(int backend) {
  std::optional<BackendChoice> choice = backends_.balancer().RouteTo(backend);
  choice ? Begin(std::move(choice)) : Start({});  // any backend answers 404
}

void ForwardTask::Begin(std::optional<BackendChoice> choice) {
  if (!choice) return Fail(503, "no coordinator serves at the moment: " + backends_.Missing());
  choice_ = std::move(choice);
  exchange_->OnGone([self = shared_from_this()] {
    self->gone_ = true;
    if (const auto upstream = self->upstream_.lock()) upstream->Cancel();
  });
  Try();
}

void ForwardTask::Try() {
  NUMOE_CHECK(choice_.has_value() && !streaming_) << "no backend is tried after the answer has begun";
  ++attempt_;
  connected_ = streaming_ = refused_ = false;
  status_ = 0;
  whole_.reset();
  events_.reset();
  backend_ = backends_.NameOf(choice_->backend);
  const std::shared_ptr<net::HttpClient> client = backends_.ClientOf(choice_->backend);
  if (client == nullptr) return Unreached("its name is not known");
  const net::HttpRequest& request = exchange_->request();
  // HEAD needs the head of GET's answer, including its length.
  upstream_ = client->Send(
      exchange_->Executor(),
      {.path = request.target,
       .body = request.body,
       .method = request.method == "HEAD" ? "GET" : request.method,
       .headers = ForwardedHeaders(request),
       .connect_seconds = limits::kRouterConnectSeconds,
       .silence_seconds = 0},  // the coordinator has limits, and a timer would cost time at every token
      Events(client));
}

net::HttpEvents ForwardTask::Events(std::shared_ptr<net::HttpClient> client) {
  const auto current = [self = shared_from_this(), attempt = attempt_, client = std::move(client)] {
    return attempt == self->attempt_ ? self.get() : nullptr;
  };
  return {.on_connected =
              [current] {
                if (ForwardTask* const task = current()) task->connected_ = true;
              },
          .on_head =
              [current](int status) {
                if (ForwardTask* const task = current()) task->status_ = status;
              },
          .on_headers =
              [current](const net::HttpHeaders& headers) {
                if (ForwardTask* const task = current()) task->OnHead(headers);
              },
          .on_body = [current](std::string_view bytes) -> absl::Status {
            ForwardTask* const task = current();
            return task == nullptr ? absl::CancelledError("another backend tries the request")
                                   : task->OnBody(bytes);
          },
          .on_end =
              [current](const absl::Status& end) {
                if (ForwardTask* const task = current()) task->OnEnd(end);
              }};
}

void ForwardTask::OnHead(const net::HttpHeaders& headers) {
  if (gone_ || !IsFinalStatus(status_)) return;
  net::HttpReply reply = ForwardedReply(status_, headers);
  NUMOE_DCHECK(!streaming_ && !whole_);
  refused_ = status_ == 429 || status_ == 503;
  const bool no_body = exchange_->request().method == "HEAD" || status_ == 204 || status_ == 304;
  if (refused_ || no_body || IsShort(headers, limits::kRouterWholeBytesMax)) {
    whole_ = std::move(reply);
    return;
  }
  exchange_->TakeBody();  // no other backend will need it
  streaming_ = true;
  if (reply.type.starts_with("text/event-stream")) events_.emplace(exchange_->request().path);
  exchange_->BeginBody(std::move(reply));
}

absl::Status ForwardTask::OnBody(std::string_view bytes) {
  if (gone_) return absl::OkStatus();
  if (!whole_ && !streaming_)
    return absl::InternalError(fmt::format("it answered status {}, expected 200 to 599", status_));
  if (whole_) {
    if (whole_->body.size() + bytes.size() > limits::kClientReplyBytesMax)
      return absl::ResourceExhaustedError("its answer is too long to be passed on in one piece");
    whole_->body += bytes;
    return absl::OkStatus();
  }
  std::string piece = events_ ? events_->Take(bytes) : std::string(bytes);
  if (piece.empty()) return absl::OkStatus();
  exchange_->Send(std::move(piece));
  if (const auto upstream = upstream_.lock()) {
    upstream->Pause();
    exchange_->OnSent([upstream] { upstream->Resume(); });
  }
  return absl::OkStatus();
}

void ForwardTask::OnEnd(const absl::Status& end) {
  NUMOE_CHECK(choice_.has_value());
  choice_->running.reset();
  if (gone_) return;
  if (refused_) return OnRefusal();  // even if the body is incomplete
  if (end.ok() && whole_) return exchange_->Reply(*std::move(whole_));
  if (end.ok() && streaming_) {
    if (events_) exchange_->Send(events_->Rest());
    return exchange_->EndStream();
  }
  const std::string why(end.ok() ? fmt::format("it answered status {}, expected 200 to 599", status_)
                                 : end.message());
  if (!connected_) return Unreached(why);
  const LogScope scope(exchange_->request().id);
  LogWarning("backend {}: {}", backend_, why);
  streaming_ ? OnStreamBroken(why) : OnLost(why);
}

void ForwardTask::OnLost(const std::string& why) {
  if (repeatable_ && !std::exchange(lost_, true) && TryElsewhere()) return;
  exchange_->NoteFailure(fmt::format("backend {}: {}", backend_, why));
  Fail(502,
       "the coordinator's connection ended before its answer; it may have run, so it is not tried again");
}

void ForwardTask::OnStreamBroken(const std::string& why) {
  exchange_->NoteFailure(fmt::format("backend {}: {}", backend_, why));
  if (!events_) return exchange_->Break();
  if (!events_->ended()) {
    exchange_->Send(events_->Failure(
        {.http_status = 502,
         .message =
             "the coordinator's connection ended in the middle of this answer; ask again for a whole one",
         .type = "server_error",
         .code = "backend_lost"}));
  }
  exchange_->EndStream();
}

// Most refusals concern this request only; a coordinator that starts or drains refuses all requests.
void ForwardTask::OnRefusal() {
  NUMOE_CHECK(whole_ && !streaming_);
  const std::string code = ErrorCodeOf(whole_->body);
  if (status_ == 503 && (code == "starting" || code == "draining"))
    backends_.MarkFailed(choice_->backend, "answered 503 " + code);
  if (TryElsewhere()) return;
  exchange_->TakeBody();
  exchange_->Reply(*std::move(whole_));
}

void ForwardTask::Unreached(const std::string& why) {
  backends_.MarkFailed(choice_->backend, why);
  if (!TryElsewhere()) Fail(503, "no coordinator can be reached: " + backends_.Missing());
}

bool ForwardTask::TryElsewhere() {
  if (choice_->by == RouteReason::kResponse) return false;  // no other backend has the answer
  tried_.insert(choice_->backend);
  std::optional<BackendChoice> next = backends_.balancer().Route(prompt_, tried_);
  if (!next) return false;
  backends_.balancer().CountRetry(choice_->backend);
  NUMOE_CHECK(!tried_.contains(next->backend)) << backend_;
  choice_ = std::move(next);
  Try();
  return true;
}

void ForwardTask::Fail(int http_status, const std::string& message) {
  NUMOE_DCHECK(!streaming_);
  exchange_->ReplyError({.http_status = http_status,
                         .message = message,
                         .type = "server_error",
                         .code = http_status == 502 ? "backend_lost" : "unavailable"});
}

}  // namespace numoe::router
