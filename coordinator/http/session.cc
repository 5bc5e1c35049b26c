#include "coordinator/http/session.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <random>

#include "common/base/check.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "common/observe/logging.h"
#include "coordinator/http/answer_constraint.h"
#include "coordinator/http/chat_prompt.h"

namespace numoe {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

// A client that reads slower than its stream grows is cut off here.
constexpr size_t kStreamQueueBytesMax = 8u << 20;

bool ConstantTimeEqual(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    difference |=
        static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

std::string NewId(const char* prefix) {
  thread_local std::mt19937_64 random{std::random_device{}()};
  return fmt::format("{}{:016x}{:016x}", prefix, random(), random());
}

std::string PathOf(beast::string_view target) {
  const std::string text(target.data(), target.size());
  return text.substr(0, text.find('?'));
}

}  // namespace

Session::Session(asio::ip::tcp::socket socket, const ServerDeps& deps)
    : stream_(std::move(socket)), deps_(deps) {}

void Session::Run() {
  asio::dispatch(stream_.get_executor(), [self = shared_from_this()] { self->ReadRequest(); });
}

void Session::ReadRequest() {
  parser_.emplace();
  parser_->body_limit(limits::kHttpBodyBytesMax);
  parser_->header_limit(limits::kHttpHeaderBytesMax);
  stream_.expires_after(std::chrono::seconds(limits::kHttpReadTimeoutSeconds));
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](beast::error_code error, size_t) { self->OnRequest(error); });
}

void Session::OnRequest(beast::error_code error) {
  stream_.expires_never();
  started_ = std::chrono::steady_clock::now();
  request_id_ = NewId("req-");
  if (error == http::error::body_limit || error == http::error::header_limit) {
    keep_alive_ = false;
    request_ = {};
    return ReplyError(
        {.http_status = 413,
         .message = fmt::format("the request is larger than {} bytes", limits::kHttpBodyBytesMax),
         .code = "request_too_large"});
  }
  if (error == http::error::end_of_stream || error == asio::error::connection_reset ||
      error == beast::error::timeout || error == asio::error::operation_aborted) {
    beast::error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    return;
  }
  if (error) {
    keep_alive_ = false;
    request_ = {};
    return ReplyError(BadRequest("", "not a valid HTTP request: " + error.message()));
  }
  request_ = parser_->release();
  keep_alive_ = request_.keep_alive();
  if (const auto given = request_.find("x-request-id");
      given != request_.end() && given->value().size() <= 128) {
    request_id_ = std::string(given->value());
  }
  Route();
}

void Session::Route() {
  const std::string path = PathOf(request_.target());
  const bool completion = path == "/v1/chat/completions" || path == "/v1/completions";
  const bool reset = path == "/reset_prefix_cache" || path == "/flush_cache";  // vLLM's and SGLang's names
  const bool known = completion || reset || path == "/v1/models" || path == "/health" || path == "/metrics" ||
                     path.rfind("/v1/models/", 0) == 0;
  if (!known) {
    return ReplyError({.http_status = 404,
                       .message = fmt::format("no such path: {}; this server has /v1/chat/completions, "
                                              "/v1/completions, /v1/models, /health, /metrics, "
                                              "/reset_prefix_cache and /flush_cache",
                                              path),
                       .code = "not_found"});
  }
  const bool post = completion || reset;
  if (request_.method() != (post ? http::verb::post : http::verb::get)) {
    return ReplyError({.http_status = 405,
                       .message = fmt::format("{} takes {} requests", path, post ? "POST" : "GET"),
                       .code = "method_not_allowed"});
  }
  if (path == "/metrics")
    return Reply(200, deps_.metrics.Serialise(), "text/plain; version=0.0.4; charset=utf-8");
  if (path == "/health") {
    const HealthReport report = deps_.health();
    const bool good = report.status == "ready";
    return Reply(good ? 200 : 503,
                 nlohmann::ordered_json{{"status", report.status}, {"detail", report.detail}}.dump());
  }
  if (!Authorised()) {
    return ReplyError({.http_status = 401,
                       .message = "missing or wrong API key: send Authorization: Bearer KEY",
                       .type = "authentication_error",
                       .code = "invalid_api_key"});
  }
  if (completion) return Complete(path == "/v1/chat/completions");
  if (reset) {
    deps_.engine.ResetPrefixCache();
    return Reply(200, "{}");
  }
  const nlohmann::ordered_json model = {{"id", deps_.model_name},
                                        {"object", "model"},
                                        {"created", 0},
                                        {"owned_by", "numoe"},
                                        {"max_model_len", deps_.max_model_len}};
  if (path == "/v1/models")
    return Reply(200, nlohmann::ordered_json{{"object", "list"}, {"data", {model}}}.dump());
  if (path == "/v1/models/" + deps_.model_name) return Reply(200, model.dump());
  ReplyError(
      {.http_status = 404,
       .message = fmt::format("no such model: {}; this server has {}", path.substr(11), deps_.model_name),
       .param = "model",
       .code = "model_not_found"});
}

bool Session::Authorised() {
  if (deps_.api_keys.empty()) return true;
  const auto header = request_.find(http::field::authorization);
  const std::string value = header == request_.end() ? "" : std::string(header->value());
  bool found = false;
  for (const std::string& key : deps_.api_keys) found = ConstantTimeEqual("Bearer " + key, value) || found;
  return found;
}

void Session::Complete(bool chat) {
  // Refused before any work: an overloaded server must not tokenise.
  if (!deps_.engine.HasRoom()) {
    deps_.metrics.Add(CounterId::kRequestsRejected);
    return ReplyError(
        FromStatus(deps_.health().status == "draining"
                       ? absl::UnavailableError("the server is draining and takes no new requests")
                       : absl::ResourceExhaustedError("the queue is full; try again later")));
  }
  auto parsed = ParseCompletionRequest(request_.body(), chat, deps_.defaults);
  if (const auto* error = std::get_if<ApiError>(&parsed)) return ReplyError(*error);
  auto& request = std::get<CompletionRequest>(parsed);
  if (!request.model.empty() && request.model != deps_.model_name) {
    return ReplyError(
        {.http_status = 404,
         .message = fmt::format("no such model: {}; this server has {}", request.model, deps_.model_name),
         .param = "model",
         .code = "model_not_found"});
  }
  ApiError error;
  absl::StatusOr<std::vector<TokenId>> prompt = Prompt(request, error);
  if (!prompt.ok()) return ReplyError(error);
  Submit(std::move(request), *std::move(prompt));
}

absl::StatusOr<std::vector<TokenId>> Session::Prompt(const CompletionRequest& request, ApiError& error) {
  std::vector<TokenId> ids = request.prompt_tokens;
  if (request.chat) {
    if (deps_.chat_template == nullptr) {
      error = BadRequest("messages", "this model has no chat template; use /v1/completions");
      return absl::InvalidArgumentError(error.message);
    }
    const auto segments =
        RenderChat(*deps_.chat_template, request, deps_.output_format.tools, deps_.tokenizer.role_tokens());
    if (!segments.ok()) {
      error = BadRequest("messages", "the chat template refuses this conversation: " +
                                         std::string(segments.status().message()));
      return segments.status();
    }
    ids = deps_.tokenizer.EncodeSegments(*segments);
  } else if (ids.empty()) {
    ids = deps_.tokenizer.Encode(request.prompt, Specials::kAsText);
  }
  const char* param = request.chat ? "messages" : "prompt";
  for (const TokenId id : ids) {
    if (id < deps_.tokenizer.VocabSize()) continue;
    error = BadRequest(
        param, fmt::format("token id {} is outside the vocabulary of {}", id, deps_.tokenizer.VocabSize()));
    return absl::InvalidArgumentError(error.message);
  }
  if (ids.empty()) {
    error = BadRequest(param, "the prompt is empty");
    return absl::InvalidArgumentError(error.message);
  }
  if (static_cast<int64_t>(ids.size()) >= deps_.max_model_len) {
    error = BadRequest(param, fmt::format("the prompt has {} tokens, but the context length is {}",
                                          ids.size(), deps_.max_model_len));
    error.code = "context_length_exceeded";
    return absl::InvalidArgumentError(error.message);
  }
  return ids;
}

// Null: any text.
absl::StatusOr<std::unique_ptr<TokenConstraint>> Session::Constraint(const CompletionRequest& request,
                                                                     absl::Span<const TokenId> prompt) {
  if (!request.structure) return nullptr;
  ASSIGN_OR_RETURN(auto grammar, deps_.grammars.Get(*request.structure));
  const OutputFormat raw;
  const AnswerOutline outline{.format = request.chat ? deps_.output_format : raw,
                              .prompt_mark = request.chat
                                                 ? PromptMark(deps_.output_format, deps_.tokenizer, prompt)
                                                 : std::optional<Mark>(),
                              .calls = !request.tools.is_null()};
  return std::make_unique<AnswerConstraint>(std::move(grammar), outline);
}

void Session::Submit(CompletionRequest request, std::vector<TokenId> prompt) {
  absl::StatusOr<std::unique_ptr<TokenConstraint>> constraint = Constraint(request, prompt);
  if (!constraint.ok()) {
    return ReplyError(BadRequest(
        request.structure_param,
        fmt::format("'{}': {}", request.structure_param, std::string(constraint.status().message()))));
  }
  generation_.emplace(request, GenerationSetup{.tokenizer = deps_.tokenizer,
                                               .format = deps_.output_format,
                                               .eos_token_ids = deps_.eos_token_ids,
                                               .prompt = prompt,
                                               .id = NewId(request.chat ? "chatcmpl-" : "cmpl-"),
                                               .model = deps_.model_name});
  streaming_ = request.stream;
  stream_headers_sent_ = ending_ = false;
  const uint64_t round = ++round_;
  GenerateRequest generate{.request_id = request_id_,
                           .prompt = std::move(prompt),
                           .cache_salt = request.cache_salt,
                           .sampling = request.sampling,
                           .constraint = *std::move(constraint),
                           .on_event = nullptr};
  generate.on_event = [weak = weak_from_this(), executor = stream_.get_executor(),
                       round](const TokenEvent& event) {
    // The engine's thread: only hand it over.
    asio::post(executor, [weak, event, round] {
      const auto self = weak.lock();
      if (self != nullptr && self->round_ == round) self->OnEvent(event);
    });
  };
  const absl::StatusOr<SequenceId> sequence = deps_.engine.Submit(std::move(generate));
  if (!sequence.ok()) {
    generation_.reset();
    ApiError error = FromStatus(sequence.status());
    if (error.http_status == 400) error.code = "context_length_exceeded";
    return ReplyError(error);
  }
  sequence_ = *sequence;
  WatchClient();
}

void Session::OnEvent(const TokenEvent& event) {
  if (!generation_) return;
  if (event.finish == FinishReason::kError) return OnError(event.error);
  const std::vector<AnswerDelta> deltas = generation_->Take(event);
  if (generation_->done()) {
    if (generation_->ended_early() && event.finish == FinishReason::kNone) deps_.engine.Cancel(*sequence_);
    sequence_.reset();
  }
  if (!streaming_) {
    if (generation_->done()) Reply(200, generation_->Answer());
    return;
  }
  if (std::string events = generation_->Events(deltas); !events.empty()) {
    if (!stream_headers_sent_) StartStream();
    Stream(std::move(events));
  }
  if (generation_->done()) EndStream();
}

void Session::OnError(const absl::Status& status) {
  sequence_.reset();
  const ApiError error = FromStatus(status);
  if (!stream_headers_sent_) return ReplyError(error);
  Stream("data: " + error.ToJson() + "\n\n");
  generation_.reset();
  EndStream();
}

// A read that completes only when the client sends something (pipelining: left to the next round) or goes
// away.
void Session::WatchClient() {
  stream_.socket().async_receive(
      asio::buffer(&probe_, 1), asio::socket_base::message_peek,
      [self = shared_from_this(), round = round_](beast::error_code error, size_t bytes) {
        if (round == self->round_ && (error || bytes == 0) && error != asio::error::operation_aborted)
          self->ClientGone();
      });
}

void Session::ClientGone() {
  if (sequence_) deps_.engine.Cancel(*sequence_);
  sequence_.reset();
  generation_.reset();
  ++round_;
  beast::error_code ignored;
  stream_.socket().close(ignored);
}

void Session::Reply(int status, std::string body, const char* type) {
  auto response = std::make_shared<Response>(static_cast<http::status>(status),
                                             request_.version() == 0 ? 11u : request_.version());
  response->set(http::field::content_type, type);
  response->set("x-request-id", request_id_);
  if (status == 429 || status == 503) response->set(http::field::retry_after, "1");
  if (status == 405) response->set(http::field::allow, "GET, POST");
  response->keep_alive(keep_alive_);
  response->body() = std::move(body);
  response->prepare_payload();
  ++round_;
  Log(status);
  http::async_write(stream_, *response,
                    [self = shared_from_this(), response](beast::error_code error, size_t) {
                      self->generation_.reset();
                      if (!error) self->Next();
                    });
}

void Session::ReplyError(const ApiError& error) { Reply(error.http_status, error.ToJson()); }

void Session::StartStream() {
  stream_headers_sent_ = true;
  Stream(fmt::format(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n"
      "X-Accel-Buffering: no\r\nConnection: {}\r\nx-request-id: {}\r\nTransfer-Encoding: chunked\r\n\r\n",
      keep_alive_ ? "keep-alive" : "close", request_id_));
}

void Session::Stream(std::string data) {
  // Everything after the headers is a chunk of the chunked encoding.
  if (data.rfind("HTTP/1.1", 0) != 0) data = fmt::format("{:x}\r\n{}\r\n", data.size(), data);
  queued_bytes_ += data.size();
  if (queued_bytes_ > kStreamQueueBytesMax) return ClientGone();
  queue_.push_back(std::move(data));
  WriteNext();
}

void Session::EndStream() {
  if (generation_ && generation_->wants_usage()) Stream(generation_->UsageEvent());
  Stream("data: [DONE]\n\n");
  ending_ = true;
  queue_.push_back("0\r\n\r\n");
  WriteNext();
}

void Session::WriteNext() {
  if (writing_) return;
  if (queue_.empty()) {
    if (!ending_) return;
    ending_ = false;
    ++round_;
    Log(200);
    generation_.reset();
    return Next();
  }
  writing_ = true;
  auto data = std::make_shared<std::string>();
  for (const std::string& piece : queue_) *data += piece;  // one packet for what has gathered
  queue_.clear();
  asio::async_write(stream_, asio::buffer(*data),
                    [self = shared_from_this(), data](beast::error_code error, size_t) {
                      self->writing_ = false;
                      self->queued_bytes_ = 0;
                      if (error) return self->ClientGone();
                      self->WriteNext();
                    });
}

void Session::Log(int status) {
  const double ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - started_).count();
  const std::string path = PathOf(request_.target());
  deps_.metrics
      .With(CounterId::kHttpRequests, {path.size() > 64 ? "long"
                                       : status == 404  ? "unknown"
                                                        : path,
                                       std::to_string(status)})
      .Increment();
  const LogScope scope(request_id_);
  spdlog::info("path={} status={} ms={:.1f} tokens={}", path.substr(0, 100), status, ms,
               generation_ ? generation_->completion_tokens() : 0);
}

void Session::Next() {
  // The pending peek belongs to the request that has ended.
  beast::error_code ignored;
  stream_.socket().cancel(ignored);
  if (keep_alive_) return ReadRequest();
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
}

}  // namespace numoe
