#include "coordinator/http/connection.h"

#include <fmt/format.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <deque>
#include <optional>
#include <random>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/observe/logging.h"
#include "coordinator/http/http_limits.h"
#include "coordinator/http/response_head.h"
#include "coordinator/http/url_text.h"

namespace numoe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using std::chrono::seconds;
using TlsStream = asio::ssl::stream<tcp::socket>;

std::string NewRequestId() {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("req-{:016x}{:016x}", random(), random());
}

std::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

HttpRequest FromBeast(http::request<http::string_body> message) {
  HttpRequest request;
  request.method = std::string(View(message.method_string()));
  request.target = std::string(View(message.target()));
  request.path = PathOf(View(message.target()));
  request.query = QueryOf(View(message.target()));
  for (const auto& field : message) {
    std::string name(View(field.name_string()));
    for (char& c : name) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    request.headers.emplace_back(std::move(name), View(field.value()));
  }
  request.body = std::move(message.body());
  const std::string_view id = request.Header("x-request-id");
  request.id = id.empty() || id.size() > limits::kHttpRequestIdBytesMax ? NewRequestId() : std::string(id);
  return request;
}

HttpReply EventStream() {
  return {
      .body = "",
      .type = "text/event-stream; charset=utf-8",
      .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};  // nginx would gather events
}

ApiError FromAccess(const absl::Status& status) {
  if (!absl::IsUnauthenticated(status)) return FromStatus(status);
  return {.http_status = 401,
          .message = std::string(status.message()),
          .type = "authentication_error",
          .code = "invalid_api_key"};
}

// `Stream`: tcp::socket or TlsStream.
template <typename Stream>
class Connection : public std::enable_shared_from_this<Connection<Stream>>, public OpenConnections::Member {
 public:
  Connection(Stream stream, std::shared_ptr<asio::ssl::context> tls, const ServerParts& parts)
      : tls_(std::move(tls)),
        stream_(std::move(stream)),
        parts_(parts),
        read_timer_(stream_.get_executor()),
        write_timer_(stream_.get_executor()) {
    parts_.connections->Enter(this);
  }
  ~Connection() override { parts_.connections->Leave(this); }

  void DropAnswer() override {
    const auto self = this->shared_from_this();  // the answer may be all that holds it
    exchange_.reset();
    answering_.reset();
    slot_.reset();
    gone_ = nullptr;
    sent_ = nullptr;
  }

  void Run() {
    asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (std::is_same_v<Stream, TlsStream>) {
        self->Limit(self->read_timer_, limits::kHttpReadTimeoutSeconds);
        self->stream_.async_handshake(asio::ssl::stream_base::server, [self](beast::error_code error) {
          self->read_timer_.cancel();
          if (!error) self->ReadRequest();
        });
      } else {
        self->ReadRequest();
      }
    });
  }

 private:
  // The answer to the request that is served now; `round` tells it from those before and after.
  class Answer final : public Exchange {
   public:
    Answer(std::shared_ptr<Connection> connection, HttpRequest request, uint64_t round)
        : connection_(std::move(connection)), request_(std::move(request)), round_(round) {}

    const HttpRequest& request() const override { return request_; }
    std::string TakeBody() override { return std::move(request_.body); }
    void Reply(HttpReply reply) override {
      if (live()) connection_->Reply(std::move(reply));
    }
    void ReplyError(const ApiError& error) override {
      if (live()) connection_->ReplyError(error);
    }
    void BeginStream() override { BeginBody(EventStream()); }
    void BeginBody(HttpReply head) override {
      if (live()) connection_->BeginBody(head);
    }
    void Send(std::string data) override {
      if (live()) connection_->SendChunk(data);
    }
    void EndStream() override {
      if (live()) connection_->EndStream();
    }
    void Break() override {
      if (live()) connection_->Break();
    }
    void OnSent(std::function<void()> sent) override {
      if (live()) connection_->OnSent(std::move(sent));
    }
    void OnGone(std::function<void()> gone) override {
      if (live()) connection_->gone_ = std::move(gone);
    }
    void Post(std::function<void()> work) override {
      asio::post(connection_->stream_.get_executor(),
                 [connection = connection_, round = round_, work = std::move(work)] {
                   if (connection->round_ == round && !connection->answered_) work();
                 });
    }
    asio::any_io_executor Executor() override { return connection_->stream_.get_executor(); }
    std::shared_ptr<void> Place() override { return live() ? connection_->slot_ : nullptr; }
    void CountTokens(int tokens) override {
      if (live()) connection_->tokens_ = tokens;
    }

   private:
    bool live() const { return connection_->round_ == round_ && !connection_->answered_; }

    const std::shared_ptr<Connection> connection_;
    HttpRequest request_;
    const uint64_t round_;
    friend class Connection;
  };

  void Limit(asio::steady_timer& timer, int limit_s) {
    timer.expires_after(seconds(limit_s));
    timer.async_wait([weak = this->weak_from_this()](beast::error_code error) {
      if (const auto self = weak.lock(); self != nullptr && !error) self->Close();
    });
  }

  void ReadRequest() {
    parser_.emplace();
    parser_->body_limit(limits::kHttpBodyBytesMax);
    parser_->header_limit(limits::kHttpHeaderBytesMax);
    Limit(read_timer_, limits::kHttpReadTimeoutSeconds);
    http::async_read_header(stream_, buffer_, *parser_,
                            [self = this->shared_from_this()](beast::error_code error, size_t) {
                              error ? self->OnRequest(error) : self->OnHeader();
                            });
  }

  void OnHeader() {
    if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return ReadBody();
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kContinue),
                      [self = this->shared_from_this()](beast::error_code error, size_t) {
                        error ? self->Close() : self->ReadBody();
                      });
  }

  void ReadBody() {
    http::async_read(
        stream_, buffer_, *parser_,
        [self = this->shared_from_this()](beast::error_code error, size_t) { self->OnRequest(error); });
  }

  void OnRequest(beast::error_code error) {
    read_timer_.cancel();
    ++round_;
    started_ = std::chrono::steady_clock::now();
    answered_ = streaming_ = false;
    tokens_ = 0;
    errors_ = ErrorShape::kOpenAi;
    const bool too_large = error == http::error::body_limit || error == http::error::header_limit;
    const bool not_http = error &&
                          error.category() == http::make_error_code(http::error::bad_method).category() &&
                          error != http::error::end_of_stream && error != http::error::partial_message;
    if (error && !too_large && !not_http) return Close();
    keep_alive_ = !error && parser_->get().keep_alive();
    BeginAnswering();
    exchange_ = std::make_shared<Answer>(
        this->shared_from_this(), error ? HttpRequest{.id = NewRequestId()} : FromBeast(parser_->release()),
        round_);
    if (too_large) {
      return ReplyError({.http_status = 413,
                         .message = fmt::format("the request is larger than {} bytes, or its headers than {}",
                                                limits::kHttpBodyBytesMax, limits::kHttpHeaderBytesMax),
                         .code = "request_too_large"});
    }
    if (error) return ReplyError(BadRequest("", "not a valid HTTP request: " + error.message()));
    WatchClient();
    Route();
  }

  // Until the answer's last byte is the system's, or nobody is there to get it.
  void BeginAnswering() {
    NUMOE_CHECK_EQ(answering_.use_count(), 0);
    parts_.answering->fetch_add(1);
    answering_ = std::shared_ptr<void>(nullptr, [count = parts_.answering](void*) { count->fetch_sub(1); });
  }

  void Route() {
    const HttpRequest& request = exchange_->request();
    if (request.method == "OPTIONS") return Write(PreflightResponse(request, parts_.options));
    const Router& router = *parts_.router.load();
    // HEAD asks for what GET would say, without the body.
    auto found = router.Find(request.method == "HEAD" ? "GET" : request.method, request.path);
    if (const auto* error = std::get_if<ApiError>(&found)) {
      HttpReply reply{.status = error->http_status, .body = error->ToJson()};
      if (error->http_status == 405) reply.headers = {{"Allow", router.Allowed(request.path)}};
      return Reply(std::move(reply));
    }
    const auto& match = std::get<RouteMatch>(found);
    route_ = match.route;
    errors_ = match.route->errors;
    exchange_->request_.captures = match.captures;
    if (!match.route->open) {
      auto slot = parts_.access.Enter(request, match.route->counted);
      if (!slot.ok()) return ReplyError(FromAccess(slot.status()));
      slot_ = *std::move(slot);
    }
    match.route->handle(exchange_);
  }

  // What comes while a request is answered belongs to the next one; that nothing can come means that the
  // client has gone.
  void WatchClient() {
    if (buffer_.size() > 0) return;
    watching_ = true;
    buffer_.shrink_to_fit();  // it has held the last request, and will hold nothing for as long as a stream
                              // takes
    stream_.async_read_some(buffer_.prepare(limits::kHttpWatchBytes),
                            [self = this->shared_from_this()](beast::error_code error, size_t bytes) {
                              self->watching_ = false;
                              self->read_timer_.cancel();
                              if (error) return self->ClientGone();
                              self->buffer_.commit(bytes);
                              if (self->idle_) self->Next();
                            });
  }

  void ClientGone() {
    answered_ = true;
    if (auto gone = std::exchange(gone_, nullptr); gone != nullptr) gone();
    Close();
  }

  void Close() {
    ++round_;
    DropAnswer();
    read_timer_.cancel();
    write_timer_.cancel();
    beast::error_code ignored;
    beast::get_lowest_layer(stream_).shutdown(tcp::socket::shutdown_both, ignored);
    beast::get_lowest_layer(stream_).close(ignored);
  }

  void ReplyError(const ApiError& error) {
    Reply({.status = error.http_status, .body = error.ToJson(errors_)});
  }
  void Reply(HttpReply reply) {
    Write(MakeResponse(exchange_->request(), std::move(reply), parts_.options, keep_alive_));
  }

  void Write(HttpResponse message) {
    NUMOE_CHECK(!answered_ && !streaming_);
    answered_ = true;
    slot_.reset();  // before the client has the answer, which may ask again at once
    gone_ = nullptr;
    message.keep_alive(keep_alive_);
    auto response = std::make_shared<HttpResponse>(std::move(message));
    Log(static_cast<int>(response->result_int()));
    Limit(write_timer_, limits::kHttpWriteTimeoutSeconds);
    auto done = [self = this->shared_from_this(), response](beast::error_code error, size_t) {
      self->write_timer_.cancel();
      error ? self->Close() : self->Finished();
    };
    http::async_write(stream_, *response, std::move(done));
  }

  void BeginBody(const HttpReply& head) {
    NUMOE_CHECK(!streaming_);
    streaming_ = true;
    status_ = head.status;
    queue_ += ChunkedHead(exchange_->request(), head, parts_.options, keep_alive_);
    head.body.empty() ? WriteQueue() : SendChunk(head.body);
  }

  void SendChunk(const std::string& data) {
    NUMOE_CHECK(streaming_);
    if (data.empty()) return;  // an empty chunk ends the stream
    fmt::format_to(std::back_inserter(queue_), "{:x}\r\n", data.size());
    queue_ += data;
    queue_ += "\r\n";
    // A client that reads slower than its stream grows is cut off here.
    if (queue_.size() > limits::kHttpStreamQueueBytesMax) return ClientGone();
    WriteQueue();
  }

  void EndStream() {
    NUMOE_CHECK(streaming_ && !answered_);
    queue_ += "0\r\n\r\n";
    answered_ = true;
    slot_.reset();
    gone_ = nullptr;
    Log(status_);
    WriteQueue();
  }

  void Break() {
    NUMOE_CHECK(streaming_ && !answered_);
    Log(status_);
    Close();
  }

  void OnSent(std::function<void()> sent) {
    NUMOE_CHECK(streaming_ && sent_ == nullptr);
    sent_ = std::move(sent);
    WriteQueue();
  }

  // One packet for what has gathered.
  void WriteQueue() {
    if (writing_) return;
    if (queue_.empty()) {
      if (answered_) return Finished();
      if (auto sent = std::exchange(sent_, nullptr); sent != nullptr) sent();
      return;
    }
    writing_ = true;
    auto data = std::make_shared<std::string>(std::exchange(queue_, {}));
    Limit(write_timer_, limits::kHttpWriteTimeoutSeconds);
    asio::async_write(
        stream_, asio::buffer(*data),
        [self = this->shared_from_this(), data, round = round_](beast::error_code error, size_t) {
          self->writing_ = false;
          self->write_timer_.cancel();
          if (self->round_ != round) return;
          error ? self->ClientGone() : self->WriteQueue();
        });
  }

  void Finished() {
    exchange_.reset();
    answering_.reset();
    slot_.reset();
    ++round_;
    if (!keep_alive_) return watching_ ? Close() : Linger();
    idle_ = true;
    if (watching_) return Limit(read_timer_, limits::kHttpIdleTimeoutSeconds);
    Next();
  }

  // What the client still sends is read and dropped for a while: closing at once would reset the connection
  // and could take the answer with it.
  void Linger() {
    beast::error_code ignored;
    beast::get_lowest_layer(stream_).shutdown(tcp::socket::shutdown_send, ignored);
    Limit(read_timer_, limits::kHttpLingerSeconds);
    Drop();
  }

  void Drop() {
    buffer_.consume(buffer_.size());
    beast::get_lowest_layer(stream_).async_read_some(
        buffer_.prepare(limits::kHttpHeaderBytesMax),
        [self = this->shared_from_this()](beast::error_code error, size_t) {
          error ? self->Close() : self->Drop();
        });
  }

  void Next() {
    idle_ = false;
    ReadRequest();
  }

  void Log(int status) {
    const double ms =
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started_).count();
    const HttpRequest& request = exchange_->request();
    // Patterns, not paths: a client must not be able to make any number of time series.
    const std::string pattern = route_ == nullptr ? "none" : route_->pattern;
    parts_.metrics.With(CounterId::kHttpRequests, {pattern, std::to_string(status)}).Increment();
    const LogScope scope(request.id);
    LogInfo("path={} status={} ms={:.1f} tokens={}", request.path.substr(0, 100), status, ms, tokens_);
    route_ = nullptr;
  }

  const std::shared_ptr<asio::ssl::context> tls_;  // outlives the stream
  Stream stream_;
  const ServerParts parts_;
  asio::steady_timer read_timer_;
  asio::steady_timer write_timer_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  bool keep_alive_ = true;
  bool idle_ = false;      // between requests
  bool watching_ = false;  // a read is pending while a request is answered, or after

  // The request that is answered now.
  std::shared_ptr<Answer> exchange_;
  std::shared_ptr<void> answering_;
  std::shared_ptr<Access::Slot> slot_;
  const numoe::Route* route_ = nullptr;
  ErrorShape errors_ = ErrorShape::kOpenAi;
  std::function<void()> gone_;
  std::function<void()> sent_;
  std::chrono::steady_clock::time_point started_;
  uint64_t round_ = 0;
  bool answered_ = false;
  bool streaming_ = false;
  int status_ = 0;  // of the stream
  int tokens_ = 0;
  std::string queue_;  // of the stream, not yet handed to the socket
  bool writing_ = false;
};

}  // namespace

void OpenConnections::Enter(Member* member) {
  const MutexLock lock(mutex_);
  members_.insert(member);
}

void OpenConnections::Leave(Member* member) {
  const MutexLock lock(mutex_);
  members_.erase(member);
}

std::set<OpenConnections::Member*> OpenConnections::All() {
  const MutexLock lock(mutex_);
  return members_;
}

bool OpenConnections::Has(Member* member) {
  const MutexLock lock(mutex_);
  return members_.count(member) > 0;
}

// Without the lock while a member drops its answer: the last one who holds a connection ends it, which
// leaves.
void OpenConnections::DropAnswers() {
  for (Member* const member : All()) {
    // One may end another: a task that forwards holds both.
    if (Has(member)) member->DropAnswer();
  }
}

void ServeConnection(tcp::socket socket, std::shared_ptr<asio::ssl::context> tls, const ServerParts& parts) {
  if (tls == nullptr) {
    std::make_shared<Connection<tcp::socket>>(std::move(socket), nullptr, parts)->Run();
  } else {
    TlsStream stream(std::move(socket), *tls);
    std::make_shared<Connection<TlsStream>>(std::move(stream), std::move(tls), parts)->Run();
  }
}

}  // namespace numoe
