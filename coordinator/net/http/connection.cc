#include "coordinator/net/http/connection.h"

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

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/observe/logging.h"
#include "coordinator/net/http/admission.h"
#include "coordinator/net/http/answer.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/message_heads.h"

namespace numoe::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using TlsStream = asio::ssl::stream<tcp::socket>;

// `route`: null where none was found.
void LogAnswer(const HttpRequest& request, const Route* route, int status, double ms, int tokens,
               Metrics& metrics) {
  // Patterns, not paths: a client must not be able to make any number of time series.
  const std::string pattern = route == nullptr ? "none" : route->pattern;
  metrics.With(CounterId::kHttpRequests, {pattern, std::to_string(status)}).Increment();
  const LogScope scope(request.id);
  LogInfo("path={} status={} ms={:.1f} tokens={}", request.path.substr(0, 100), status, ms, tokens);
}

// `Stream`: tcp::socket or TlsStream.
template <typename Stream>
class Connection final : public std::enable_shared_from_this<Connection<Stream>>,
                         public OpenConnections::Member,
                         public AnswerSink {
 public:
  Connection(Stream stream, std::shared_ptr<asio::ssl::context> tls, const ServerParts& parts)
      : tls_(std::move(tls)),
        stream_(std::move(stream)),
        parts_(parts),
        read_timer_(stream_.get_executor()),
        write_timer_(stream_.get_executor()),
        spare_(!parts_.connections->Enter(this)),
        admission_(parts_, spare_) {}
  ~Connection() override { parts_.connections->Leave(this); }

  void DropAnswer() override {
    const auto self = this->shared_from_this();  // the answer may be all that holds it
    exchange_.reset();
    answering_.reset();
    admission_.Leave();
    gone_ = nullptr;
    sent_ = nullptr;
  }

  void GiveWay() override {
    // One whose destructor waits to leave has no owner any more.
    if (auto self = this->weak_from_this().lock(); self != nullptr) {
      const asio::any_io_executor executor = stream_.get_executor();
      asio::post(executor, [self = std::move(self)] { self->Close(); });
    }
  }

  void Run() {
    asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (std::is_same_v<Stream, TlsStream>) {
        self->Limit(self->read_timer_, self->ReadTimeout());
        self->stream_.async_handshake(asio::ssl::stream_base::server,
                                      self->IfOpen([](Connection& c, beast::error_code error, size_t) {
                                        error ? c.Close() : c.ReadRequest();
                                      }));
      } else {
        self->ReadRequest();
      }
    });
  }

  // --- what handlers say (answer.h)
  bool Answers(uint64_t round) const override { return round_ == round && !answered_; }
  void OnGone(std::function<void()> gone) override { gone_ = std::move(gone); }
  std::shared_ptr<RequestPlace> Place() override { return admission_.place(); }
  void CountTokens(int tokens) override { tokens_ = tokens; }
  asio::any_io_executor Executor() override { return stream_.get_executor(); }
  void ReplyError(const ApiError& error) override { Reply(admission_.ReplyOf(error)); }
  void Reply(HttpReply reply) override { Write(ResponseOf(std::move(reply))); }

  void BeginBody(const HttpReply& head) override {
    NUMOE_CHECK(!streaming_);
    streaming_ = true;
    status_ = head.status;
    queue_ += ChunkedHead(exchange_->request(), head, parts_.options, keep_alive_);
    head.body.empty() ? WriteQueue() : SendChunk(head.body);
  }

  void SendChunk(const std::string& data) override {
    NUMOE_CHECK(streaming_);
    if (data.empty()) return;  // an empty chunk ends the stream
    fmt::format_to(std::back_inserter(queue_), "{:x}\r\n", data.size());
    queue_ += data;
    queue_ += "\r\n";
    // A client that reads slower than its stream grows.
    queue_.size() > limits::kHttpStreamQueueBytesMax ? CutOff() : WriteQueue();
  }

  void EndStream() override {
    NUMOE_CHECK(streaming_ && !answered_);
    queue_ += "0\r\n\r\n";
    answered_ = true;
    admission_.Leave();
    gone_ = nullptr;
    Log(status_);
    WriteQueue();
  }

  void Break() override {
    NUMOE_CHECK(streaming_ && !answered_);
    Log(status_);
    gone_ = nullptr;  // who breaks it knows
    Close();
  }

  void OnSent(std::function<void()> sent) override {
    NUMOE_CHECK(streaming_ && sent_ == nullptr);
    sent_ = std::move(sent);
    WriteQueue();
  }

 private:
  // What comes of an operation; nothing does once the connection is closed.
  template <typename Then>
  auto IfOpen(Then then) {
    return
        [self = this->shared_from_this(), then = std::move(then)](beast::error_code error, size_t bytes = 0) {
          if (!self->closed_) then(*self, error, bytes);
        };
  }

  void Limit(asio::steady_timer& timer, milliseconds limit, void (Connection::*then)() = &Connection::Close) {
    timer.expires_after(limit);
    timer.async_wait([weak = this->weak_from_this(), &timer, then](beast::error_code error) {
      const auto self = weak.lock();
      // One that is called off when it has run out already may still come here.
      if (self != nullptr && !self->closed_ && !error && timer.expiry() <= Clock::now())
        (self.get()->*then)();
    });
  }
  static void CallOff(asio::steady_timer& timer) { timer.expires_at(Clock::time_point::max()); }

  milliseconds ReadTimeout() const {
    const milliseconds usual = parts_.options.read_timeout;
    return spare_ ? std::min<milliseconds>(usual, seconds(limits::kHttpSpareReadTimeoutSeconds)) : usual;
  }

  milliseconds WriteTimeout() const {
    const milliseconds usual = parts_.options.write_timeout;
    return asks_ ? usual : std::min<milliseconds>(usual, seconds(limits::kHttpOpenWriteTimeoutSeconds));
  }

  void ReadRequest() {
    parser_.emplace();
    parser_->body_limit(limits::kHttpBodyBytesMax);
    parser_->header_limit(limits::kHttpHeaderBytesMax);
    Limit(read_timer_, ReadTimeout());
    http::async_read_header(stream_, buffer_, *parser_,
                            IfOpen([](Connection& c, beast::error_code error, size_t) {
                              error ? c.OnBroken(error) : c.OnHead();
                            }));
  }

  void Begin(HttpRequest request) {
    NUMOE_CHECK(exchange_ == nullptr && answering_.use_count() == 0) << "one request at a time";
    ++round_;
    started_ = Clock::now();
    answered_ = streaming_ = asks_ = false;
    tokens_ = 0;
    admission_.Begin();
    exchange_ = std::make_shared<Answer>(this->shared_from_this(), std::move(request), round_, parts_.bodies);
  }

  // Who may not ask, or asks for what is not there or takes no body, is answered at once. A body that is on
  // its way then ends the connection unread. The connection gives way to others until a whole request is let
  // in.
  void OnHead() {
    Begin(RequestOf(parser_->get()));
    const bool whole = parser_->is_done();
    // An answer of HTTP/1.1 to a client of 1.0 does not say that it stays, so it ends.
    keep_alive_ = !spare_ && parser_->get().version() >= 11 && parser_->get().keep_alive();
    std::optional<HttpResponse> refusal = Refusal();
    const bool let_in = !refusal && !admission_.route()->open;
    if (let_in && !whole) return parts_.connections->Await(this) ? AskForBody() : Close();
    if (let_in && !Ask()) return Close();
    keep_alive_ = keep_alive_ && whole;
    BeginAnswering();
    if (whole) WatchClient();
    refusal ? Write(*std::move(refusal)) : admission_.route()->handle(exchange_);
  }

  std::optional<HttpResponse> Refusal() {
    const HttpRequest& request = exchange_->request();
    if (const auto wrong = WrongHead(parser_->get())) {
      // Where the next request begins may be another place for whoever forwarded this one.
      keep_alive_ = false;
      return ResponseOf(admission_.ReplyOf(*wrong));
    }
    if (request.method == "OPTIONS") return PreflightResponse(request, parts_.options);
    std::optional<HttpReply> refusal = admission_.Enter(*exchange_, parser_->content_length().value_or(0));
    if (refusal) return ResponseOf(*std::move(refusal));
    parser_->body_limit(admission_.route()->body_max);
    return std::nullopt;
  }

  bool Ask() {
    asks_ = parts_.connections->Ask(this);
    return asks_;
  }

  void AskForBody() {
    parser_->eager(true);
    if (!beast::iequals(parser_->get()[http::field::expect], "100-continue")) return ReadBody();
    static constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(
        stream_, asio::buffer(kContinue),
        IfOpen([](Connection& c, beast::error_code error, size_t) { error ? c.Close() : c.ReadBody(); }));
  }

  void ReadBody() {
    http::async_read_some(stream_, buffer_, *parser_,
                          IfOpen([](Connection& c, beast::error_code error, size_t) {
                            error ? c.OnBroken(error) : c.OnBody();
                          }));
  }

  void OnBody() {
    std::string& body = parser_->get().body();
    if (!exchange_->body_share().Grow(body.size())) {
      keep_alive_ = false;
      BeginAnswering();
      return ReplyError(admission_.NoRoomForBody());
    }
    if (!parser_->is_done()) return ReadBody();
    if (!Ask()) return Close();
    exchange_->incoming().body = std::move(body);
    BeginAnswering();
    WatchClient();
    admission_.route()->handle(exchange_);
  }

  void OnBroken(beast::error_code error) {
    const bool too_large = error == http::error::body_limit || error == http::error::header_limit ||
                           error == http::error::buffer_overflow;
    const bool not_http = error.category() == http::make_error_code(http::error::bad_method).category() &&
                          error != http::error::end_of_stream && error != http::error::partial_message;
    if (!too_large && !not_http) return Close();
    if (exchange_ == nullptr) Begin({.id = NewRequestId()});
    keep_alive_ = false;
    BeginAnswering();
    ReplyError(too_large ? admission_.TooLarge()
                         : BadRequest("", "not a valid HTTP request: " + error.message()));
  }

  // Until the answer's last byte is the system's, or nobody is there to get it.
  void BeginAnswering() {
    NUMOE_CHECK_EQ(answering_.use_count(), 0);
    CallOff(read_timer_);
    parts_.answering->fetch_add(1);
    answering_ = std::shared_ptr<void>(nullptr, [count = parts_.answering](void*) { count->fetch_sub(1); });
  }

  // What comes while a request is answered belongs to the next one; that nothing can come means that the
  // client has gone, also if it had sent something ahead.
  void WatchClient() {
    NUMOE_CHECK(!watching_ && !closed_) << "one read at a time";
    watching_ = true;
    // It has held the last request, and will mostly hold nothing for as long as a stream takes.
    if (buffer_.size() == 0) buffer_.shrink_to_fit();
    // A full buffer reads nothing, and is found too full at once.
    const size_t room = std::min(limits::kHttpWatchBytes, buffer_.max_size() - buffer_.size());
    stream_.async_read_some(buffer_.prepare(room), IfOpen([](Connection& c, beast::error_code error,
                                                             size_t bytes) { c.OnWatched(error, bytes); }));
  }

  void OnWatched(beast::error_code error, size_t bytes) {
    watching_ = false;
    CallOff(read_timer_);
    const bool called_off = idle_ && error == asio::error::operation_aborted;
    if (error && !called_off) return Close();
    buffer_.commit(bytes);
    if (idle_) return Next();
    buffer_.size() <= limits::kHttpAheadBytesMax ? WatchClient() : Close();
  }

  // The client has not taken what it was sent.
  void CutOff() {
    if (exchange_ == nullptr) return Close();
    parts_.metrics.Add(CounterId::kHttpAnswersCut);
    const LogScope scope(exchange_->request().id);
    LogWarning("path={}: cut off, as the client does not read its answer",
               exchange_->request().path.substr(0, 100));
    Close();
  }

  // However a connection ends: who makes its answer is told, once, that nobody will take it.
  void Close() {
    if (std::exchange(closed_, true)) return;
    parts_.connections->Leave(this);
    ++round_;
    idle_ = false;
    if (auto gone = std::exchange(gone_, nullptr); gone != nullptr) gone();
    DropAnswer();
    CallOff(read_timer_);
    CallOff(write_timer_);
    beast::error_code ignored;
    beast::get_lowest_layer(stream_).shutdown(tcp::socket::shutdown_both, ignored);
    beast::get_lowest_layer(stream_).close(ignored);
  }

  HttpResponse ResponseOf(HttpReply reply) const {
    return MakeResponse(exchange_->request(), std::move(reply), parts_.options, keep_alive_);
  }

  void Write(HttpResponse message) {
    NUMOE_CHECK(!answered_ && !streaming_);
    answered_ = true;
    admission_.Leave();  // before the client has the answer, which may ask again at once
    gone_ = nullptr;
    message.keep_alive(keep_alive_);
    auto response = std::make_shared<HttpResponse>(std::move(message));
    Log(static_cast<int>(response->result_int()));
    Limit(write_timer_, WriteTimeout(), &Connection::CutOff);
    http::async_write(stream_, *response, IfOpen([response](Connection& c, beast::error_code error, size_t) {
                        CallOff(c.write_timer_);
                        error ? c.Close() : c.Finished();
                      }));
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
    Limit(write_timer_, WriteTimeout(), &Connection::CutOff);
    asio::async_write(stream_, asio::buffer(*data),
                      IfOpen([data](Connection& c, beast::error_code error, size_t) {
                        c.writing_ = false;
                        CallOff(c.write_timer_);
                        error ? c.Close() : c.WriteQueue();
                      }));
  }

  void Finished() {
    NUMOE_CHECK(answered_ && !writing_ && queue_.empty());
    exchange_.reset();
    answering_.reset();
    admission_.Leave();
    parts_.connections->Rest(this);
    ++round_;
    if (!keep_alive_) return watching_ ? Close() : Linger();
    idle_ = true;
    if (!watching_) return Next();
    if (buffer_.size() == 0) return Limit(read_timer_, seconds(limits::kHttpIdleTimeoutSeconds));
    // The next request, or its beginning, is here: the read that waits for more is called off, and goes on
    // with it. Over TLS it may stay for the rest of a record, which is waited for no longer than for a
    // request.
    Limit(read_timer_, ReadTimeout());
    beast::error_code ignored;
    beast::get_lowest_layer(stream_).cancel(ignored);
  }

  // What the client still sends is read and dropped for a while: closing at once would reset the connection
  // and could take the answer with it.
  void Linger() {
    beast::error_code ignored;
    beast::get_lowest_layer(stream_).shutdown(tcp::socket::shutdown_send, ignored);
    Limit(read_timer_, seconds(limits::kHttpLingerSeconds));
    Drop();
  }

  void Drop() {
    buffer_.consume(buffer_.size());
    beast::get_lowest_layer(stream_).async_read_some(
        buffer_.prepare(limits::kHttpHeaderBytesMax),
        IfOpen([](Connection& c, beast::error_code error, size_t) { error ? c.Close() : c.Drop(); }));
  }

  void Next() {
    idle_ = false;
    ReadRequest();
  }

  void Log(int status) {
    const double ms = std::chrono::duration<double, std::milli>(Clock::now() - started_).count();
    LogAnswer(exchange_->request(), admission_.route(), status, ms, tokens_, parts_.metrics);
  }

  const std::shared_ptr<asio::ssl::context> tls_;  // outlives the stream
  Stream stream_;
  const ServerParts parts_;
  asio::steady_timer read_timer_;
  asio::steady_timer write_timer_;
  beast::flat_buffer buffer_{limits::kHttpHeaderBytesMax + limits::kHttpAheadBytesMax};
  std::optional<http::request_parser<http::string_body>> parser_;
  const bool spare_;  // beyond --max-connections: one request, and soon
  bool closed_ = false;
  bool keep_alive_ = true;
  bool idle_ = false;      // between requests
  bool watching_ = false;  // a read is pending while a request is answered, or after

  // The request that is answered now.
  std::shared_ptr<Answer> exchange_;
  std::shared_ptr<void> answering_;
  Admission admission_;
  std::function<void()> gone_;
  std::function<void()> sent_;
  Clock::time_point started_;
  uint64_t round_ = 0;
  bool asks_ = false;  // it was let in and is whole: the connection does not give way
  bool answered_ = false;
  bool streaming_ = false;
  int status_ = 0;  // of the stream
  int tokens_ = 0;
  std::string queue_;  // of the stream, not yet handed to the socket
  bool writing_ = false;
};

}  // namespace

void ServeConnection(tcp::socket socket, std::shared_ptr<asio::ssl::context> tls, const ServerParts& parts) {
  if (tls == nullptr) {
    std::make_shared<Connection<tcp::socket>>(std::move(socket), nullptr, parts)->Run();
  } else {
    TlsStream stream(std::move(socket), *tls);
    std::make_shared<Connection<TlsStream>>(std::move(stream), std::move(tls), parts)->Run();
  }
}

}  // namespace numoe::net
