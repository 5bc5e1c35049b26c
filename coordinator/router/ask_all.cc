#include "coordinator/router/ask_all.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "coordinator/net/client/client_limits.h"
#include "coordinator/router/forwarded_head.h"
#include "coordinator/router/router_limits.h"

namespace numoe::router {
namespace {

// One request to all backends; it ends with the last answer.
class Asking : public std::enable_shared_from_this<Asking> {
 public:
  Asking(std::shared_ptr<net::Exchange> exchange, AskAllOptions options,
         std::function<void(std::vector<BackendReply>)> done)
      : exchange_(std::move(exchange)), options_(std::move(options)), done_(std::move(done)) {}

  void Start(const Backends& backends) {
    exchange_->OnGone([self = shared_from_this()] {
      self->done_ = nullptr;
      for (const auto& weak : self->upstreams_)
        if (const auto upstream = weak.lock()) upstream->Cancel();
    });
    NUMOE_CHECK_EQ(open_, 0) << "Start is called once";
    open_ = 1;  // until this function has sent all
    for (const int backend : options_.backends) Send(backend, backends.ClientOf(backend));
    Close();
  }

 private:
  struct Answer {
    BackendReply reply;
    std::weak_ptr<net::HttpExchange> upstream;
  };

  void Send(int backend, const std::shared_ptr<net::HttpClient>& client) {
    if (client == nullptr) return;
    ++open_;
    const auto answer = std::make_shared<Answer>();
    answer->reply.backend = backend;
    net::HttpEvents events;
    events.on_head = [self = shared_from_this(), answer](int status) {
      answer->reply.status = status;
      if (!self->options_.heads_only || !IsFinalStatus(status)) return;
      self->replies_.push_back(answer->reply);
      if (const auto upstream = answer->upstream.lock()) upstream->Cancel();
    };
    events.on_body = [answer](std::string_view bytes) {
      if (answer->reply.body.size() + bytes.size() > limits::kRouterGatherBytesMax)
        return absl::ResourceExhaustedError("the answer is too long to be merged");
      answer->reply.body += bytes;
      return absl::OkStatus();
    };
    // The function holds the client, which must outlive its exchange.
    events.on_end = [self = shared_from_this(), answer, client](const absl::Status& end) {
      if (end.ok() && !self->options_.heads_only && IsFinalStatus(answer->reply.status))
        self->replies_.push_back(std::move(answer->reply));
      self->Close();
    };
    answer->upstream = client->Send(exchange_->Executor(),
                                    {.path = options_.target,
                                     .body = options_.body,
                                     .method = options_.method,
                                     .headers = ForwardedHeaders(exchange_->request()),
                                     .connect_seconds = limits::kRouterConnectSeconds,
                                     .silence_seconds = limits::kClientReplySeconds},
                                    std::move(events));
    upstreams_.push_back(answer->upstream);
  }

  void Close() {
    NUMOE_CHECK_GT(open_, 0);
    if (--open_ > 0) return;
    std::sort(replies_.begin(), replies_.end(),
              [](const BackendReply& a, const BackendReply& b) { return a.backend < b.backend; });
    if (auto done = std::exchange(done_, nullptr); done != nullptr) done(std::move(replies_));
  }

  const std::shared_ptr<net::Exchange> exchange_;
  const AskAllOptions options_;
  std::function<void(std::vector<BackendReply>)> done_;
  std::vector<std::weak_ptr<net::HttpExchange>> upstreams_;
  std::vector<BackendReply> replies_;
  int open_ = 0;
};

}  // namespace

void AskAll(Backends& backends, const std::shared_ptr<net::Exchange>& exchange, AskAllOptions options,
            std::function<void(std::vector<BackendReply>)> done) {
  std::make_shared<Asking>(exchange, std::move(options), std::move(done))->Start(backends);
}

}  // namespace numoe::router
