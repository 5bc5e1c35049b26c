#include "coordinator/net/http/connection.h"

#include <fmt/format.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <optional>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/log.h"
#include "common/observe/logging.h"
#include "coordinator/net/http/admission.h"
#include "coordinator/net/http/answer.h"
#include "coordinator/net/http/http_limits.h"
#include "coordinator/net/http/message_heads.h"
#include "coordinator/net/http/request_body.h"

namespace numoe::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using tcp = asio::ip::tcp;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;
using TlsStream = asio::ssl::stream<tcp::socket>;

constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

milliseconds ReadTimeout(const ServerOptions& options, bool spare) {
  const milliseconds usual = options.read_timeout;
  return spare ? std::min<milliseconds>(usual, seconds(limits::kHttpSpareReadTimeoutSeconds)) : usual;
}

milliseconds WriteTimeout(const ServerOptions& options, bool busy) {
  const milliseconds usual = options.write_timeout;
  return busy ? usual : std::min<milliseconds>(usual, seconds(limits::kHttpOpenWriteTimeoutSeconds));
}

// `Stream` is tcp::socket or TlsStream.
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
        spare_(!parts_.connections->Add(this)),
        admission_(parts_, spare_) {}
  ~Connection() override { parts_.connections->Remove(this); }

  void DropAnswer() override {
    const auto self = this->shared_from_this();  // the answer may hold the last reference
    exchange_.reset();
    answering_.reset();
    admission_.Leave();
    gone_ = nullptr;
    sent_ = nullptr;
  }

  void Evict() override {
    // A connection whose destructor waits for the lock of `connections` has no owner any more.
    if (auto self = this->weak_from_this().lock(); self != nullptr) {
      const asio::any_io_executor executor = stream_.get_executor();
      asio::post(executor, [self = std::move(self)] { self->Close(); });
    }
  }

  void Run() {
    asio::dispatch(stream_.get_executor(), [self = this->shared_from_this()] {
      if constexpr (std::is_same_v<Stream, TlsStream>) {
        self->Limit(self->read_timer_, ReadTimeout(self->parts_.options, self->spare_));
        self->stream_.async_handshake(asio::ssl::stream_base::server,
                                      self->IfOpen([](Connection& c, beast::error_code error, size_t) {
                                        error ? c.Close() : c.ReadRequest();
                                      }));
      } else {
        self->ReadRequest();
      }
    });
  }

  // --- called by handlers (answer.h)
  bool Answers(uint64_t round) const override { return round_ == round && !answered_; }
  void OnGone(std::function<void()> gone) override { gone_ = std::move(gone); }
  std::shared_ptr<ConcurrencySlot> Slot() override { return admission_.slot(); }
  void CountTokens(int tokens) override { tokens_ = tokens; }
  asio::any_io_executor Executor() override { return stream_.get_executor(); }
  void ReplyError(const ApiError& error) override { Reply(admission_.ReplyOf(error)); }
  void NoteFailure(std::string what) override { failure_ = std::move(what); }

  void Reply(HttpReply reply) override {
    NUMOE_CHECK(!answered_ && !streaming_);
    queue_ += WholeAnswer(exchange_->request(), reply, parts_.pages, Framing());
    Answered(reply.status);
  }

  void BeginBody(const HttpReply& head) override {
    NUMOE_CHECK(!streaming_);
    streaming_ = true;
    CallOff(read_timer_);  // it may run because the client has finished sending (OnHalfClosed)
    status_ = head.status;
    keep_alive_ = keep_alive_ && !http10_;  // an HTTP/1.0 body ends with its connection
    queue_ += StreamHead(exchange_->request(), head, parts_.pages, Framing());
    head.body.empty() ? WriteQueue() : SendChunk(head.body);
  }

  void SendChunk(const std::string& data) override {
    NUMOE_CHECK(streaming_);
    if (data.empty()) return;  // an empty chunk ends the stream
    if (!http10_) fmt::format_to(std::back_inserter(queue_), "{:x}\r\n", data.size());
    queue_ += data;
    if (!http10_) queue_ += "\r\n";
    // The client reads more slowly than its stream grows.
    queue_.size() > limits::kHttpStreamQueueBytesMax ? CutOff() : WriteQueue();
  }

  void EndStream() override {
    NUMOE_CHECK(streaming_ && !answered_);
    if (!http10_) queue_ += "0\r\n\r\n";
    Answered(status_);
  }

  void Break() override {
    NUMOE_CHECK(streaming_ && !answered_);
    Log(status_);
    gone_ = nullptr;  // the caller knows that the exchange ends
    Close();
  }

  void OnSent(std::function<void()> sent) override {
    NUMOE_CHECK(streaming_ && sent_ == nullptr);
    sent_ = std::move(sent);
    WriteQueue();
  }

 private:
  // Wraps the completion of an operation, so that nothing happens once the connection is closed.
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
      // A timer that is called off after it has expired may still call this.
      if (self != nullptr && !self->closed_ && !error && timer.expiry() <= Clock::now())
        (self.get()->*then)();
    });
  }
  static void CallOff(asio::steady_timer& timer) { timer.expires_at(Clock::time_point::max()); }

  AnswerFraming Framing() const { return {.http10 = http10_, .keep_alive = keep_alive_}; }
  std::string_view Buffered() const {
    return {static_cast<const char*>(buffer_.data().data()), buffer_.size()};
  }

  void ReadRequest() {
    Limit(read_timer_, ReadTimeout(parts_.options, spare_));
    OnHeadBytes();
  }

  // Reads up to twice what the last read returned, because heads are small and bodies may be large.
  void ReadMore(void (Connection::*then)()) {
    const size_t room = buffer_.max_size() - buffer_.size();
    NUMOE_CHECK_GT(room, 0u) << "the sizes of heads and bodies are limited";
    const size_t wanted = std::clamp(last_read_ * 2, limits::kHttpWatchBytes, limits::kHttpHeaderBytesMax);
    stream_.async_read_some(buffer_.prepare(std::min(room, wanted)),
                            IfOpen([then](Connection& c, beast::error_code error, size_t bytes) {
                              if (error) return c.Close();
                              c.buffer_.commit(bytes);
                              c.last_read_ = bytes;
                              (c.*then)();
                            }));
  }

  void OnHeadBytes() {
    size_t used = 0;
    auto read = heads_.Read(Buffered(), used);
    buffer_.consume(used);
    if (!read) return ReadMore(&Connection::OnHeadBytes);
    if (const auto* error = std::get_if<ApiError>(&*read)) return Refuse(*error);
    OnHead(std::get<RequestHead>(*std::move(read)));
  }

  void Begin(HttpRequest request) {
    NUMOE_CHECK(exchange_ == nullptr && answering_.use_count() == 0) << "one request at a time";
    ++round_;
    started_ = Clock::now();
    answered_ = streaming_ = busy_ = false;
    tokens_ = -1;
    failure_.clear();
    admission_.Begin();
    exchange_ = std::make_shared<Answer>(this->shared_from_this(), std::move(request), round_, parts_.bodies);
  }

  // A proxy that has forwarded this request may see the beginning of the next one elsewhere, so the
  // connection is not used again.
  void Refuse(const ApiError& error) {
    if (exchange_ == nullptr) Begin({.id = NewRequestId()});
    keep_alive_ = false;
    BeginAnswering();
    ReplyError(error);
  }

  // Requests that may not be made, that ask for an unknown path, or whose route takes no body are answered at
  // once. If a body was announced, the connection then ends without reading it. The connection can be evicted
  // until a complete request has been admitted.
  void OnHead(RequestHead head) {
    const AnnouncedBody body = head.body;
    const std::string_view go_on = head.awaits_continue ? kContinue : "";
    http10_ = head.http10;
    keep_alive_ = !spare_ && head.keep_alive;
    Begin(RequestOf(std::move(head)));
    std::optional<HttpReply> refusal = admission_.Enter(*exchange_, body);
    const bool let_in = !refusal && !admission_.route()->open;
    if (let_in && body.any()) {
      if (!parts_.connections->SetReadingBody(this)) return Close();
      body_.emplace(body, admission_.route()->body_max);
      queue_ += go_on;
      WriteQueue();
      return OnBodyBytes();
    }
    if (let_in && !BecomeBusy()) return Close();
    keep_alive_ = keep_alive_ && !body.any();
    BeginAnswering();
    if (!body.any()) WatchClient();
    refusal ? Reply(*std::move(refusal)) : admission_.route()->handle(exchange_);
  }

  bool BecomeBusy() {
    busy_ = parts_.connections->SetBusy(this);
    return busy_;
  }

  void OnBodyBytes() {
    if (body_->state() == RequestBody::State::kMore) buffer_.consume(body_->Take(Buffered()));
    if (body_->state() == RequestBody::State::kMalformed) {
      return Refuse(BadRequest(
          "", "a chunk or a trailer of the request's body does not have the form of RFC 9112, 7.1"));
    }
    if (body_->state() == RequestBody::State::kTooLarge) return Refuse(admission_.TooLarge());
    if (!exchange_->body_share().Grow(body_->text().size())) return Refuse(admission_.NoRoomForBody());
    if (body_->state() == RequestBody::State::kMore) return ReadMore(&Connection::OnBodyBytes);
    if (!BecomeBusy()) return Close();
    exchange_->incoming().body = std::move(body_->text());
    body_.reset();
    BeginAnswering();
    WatchClient();
    admission_.route()->handle(exchange_);
  }

  // Counts the answer until the operating system has its last byte, or the client has gone.
  void BeginAnswering() {
    NUMOE_CHECK_EQ(answering_.use_count(), 0);
    CallOff(read_timer_);
    parts_.answering->fetch_add(1);
    answering_ = std::shared_ptr<void>(nullptr, [count = parts_.answering](void*) { count->fetch_sub(1); });
  }

  // Reads while a request is answered. Bytes that arrive belong to the next request; an error means that the
  // client has gone, even if it had sent something in advance.
  void WatchClient() {
    NUMOE_CHECK(!watching_ && !closed_) << "one read at a time";
    watching_ = true;
    // The buffer has held the last request, and will mostly stay empty for the duration of a stream.
    if (buffer_.size() == 0) buffer_.shrink_to_fit();
    // With a full buffer this reads nothing, and OnWatched finds at once that the client has sent too much.
    const size_t room = std::min(limits::kHttpWatchBytes, buffer_.max_size() - buffer_.size());
    stream_.async_read_some(buffer_.prepare(room), IfOpen([](Connection& c, beast::error_code error,
                                                             size_t bytes) { c.OnWatched(error, bytes); }));
  }

  void OnWatched(beast::error_code error, size_t bytes) {
    watching_ = false;
    CallOff(read_timer_);
    if (error == asio::error::eof && OnHalfClosed()) return;
    if (error && !(idle_ && error == asio::error::operation_aborted)) return Close();
    buffer_.commit(bytes);
    if (idle_) return Next();
    buffer_.size() <= limits::kHttpAheadBytesMax ? WatchClient() : Close();
  }

  // The client has finished sending. The bytes that it is sent now show whether it still reads
  // (connection.h). Returns false if it counts as gone.
  bool OnHalfClosed() {
    if (std::is_same_v<Stream, TlsStream> || (idle_ && buffer_.size() == 0)) return false;
    if (!answered_ && !streaming_) {
      http10_ ? Limit(read_timer_, seconds(limits::kHttp10HalfClosedSeconds)) : void(queue_ += kContinue);
    } else if (!answered_ && !http10_) {
      queue_ += '0';
    }
    if (!std::exchange(half_closed_, true)) {
      beast::get_lowest_layer(stream_).async_wait(
          tcp::socket::wait_error, IfOpen([](Connection& c, beast::error_code, size_t) { c.Close(); }));
    }
    idle_ ? Next() : WriteQueue();
    return true;
  }

  // Closes the connection of a client that does not read what it is sent.
  void CutOff() {
    if (exchange_ == nullptr) return Close();
    parts_.metrics.Add(CounterId::kHttpAnswersCut);
    const LogScope scope(exchange_->request().id);
    LogWarning("path={}: cut off, as the client does not read its answer",
               exchange_->request().path.substr(0, 100));
    Close();
  }

  // Ends the connection for any reason; the handler of an incomplete answer is told once.
  void Close() {
    if (std::exchange(closed_, true)) return;
    parts_.connections->Remove(this);
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

  void Answered(int status) {
    answered_ = true;
    CallOff(read_timer_);
    admission_.Leave();  // before the client can have the answer and send its next request
    gone_ = nullptr;
    Log(status);
    WriteQueue();
  }

  // Writes everything that is queued as one packet.
  void WriteQueue() {
    if (writing_) return;
    if (queue_.empty()) {
      if (answered_) return Finished();
      if (auto sent = std::exchange(sent_, nullptr); sent != nullptr) sent();
      return;
    }
    writing_ = true;
    auto data = std::make_shared<std::string>(std::exchange(queue_, {}));
    Limit(write_timer_, WriteTimeout(parts_.options, busy_), &Connection::CutOff);
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
    parts_.connections->SetIdle(this);
    ++round_;
    if (!keep_alive_) return watching_ ? Close() : Linger();
    idle_ = true;
    if (!watching_) return Next();
    if (buffer_.size() == 0) return Limit(read_timer_, seconds(limits::kHttpIdleTimeoutSeconds));
    // The next request, or its beginning, has arrived: cancel the pending read; OnWatched then continues with
    // these bytes. Over TLS the read may wait for the rest of a record, but no longer than for a request.
    Limit(read_timer_, ReadTimeout(parts_.options, spare_));
    beast::error_code ignored;
    beast::get_lowest_layer(stream_).cancel(ignored);
  }

  // Reads and drops what the client still sends for a while: closing at once would reset the connection, and
  // the client could lose the answer.
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
    parts_.log.Add({exchange_->request(), admission_.route(), status, ms, tokens_, failure_});
  }

  const std::shared_ptr<asio::ssl::context> tls_;  // outlives the stream
  Stream stream_;
  const ServerParts parts_;
  asio::steady_timer read_timer_;
  asio::steady_timer write_timer_;
  beast::flat_buffer buffer_{limits::kHttpHeaderBytesMax + limits::kHttpAheadBytesMax};
  HeadReader heads_;
  size_t last_read_ = 0;  // bytes that the last read returned
  const bool spare_;      // exceeds --max-connections: one request, with a short time limit
  bool closed_ = false;
  bool keep_alive_ = true;
  bool idle_ = false;         // between requests
  bool watching_ = false;     // a read that began while a request was answered is pending
  bool half_closed_ = false;  // the client has finished sending, and may still read

  // The state of the current request.
  std::shared_ptr<Answer> exchange_;
  std::shared_ptr<void> answering_;
  std::optional<RequestBody> body_;  // while it arrives
  bool http10_ = false;
  Admission admission_;
  std::function<void()> gone_;
  std::function<void()> sent_;
  Clock::time_point started_;
  uint64_t round_ = 0;
  bool busy_ = false;  // the request is admitted and complete: the connection is not evicted
  bool answered_ = false;
  bool streaming_ = false;
  int status_ = 0;       // of the stream
  int tokens_ = -1;      // -1: no handler has counted tokens
  std::string failure_;  // what went wrong after the status had been sent
  std::string queue_;    // not yet given to the socket
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
