// Session: one client connection. Reads requests, answers them one after the other, and notices when the
// client leaves.
//
// Lives on its own strand: everything but the engine's callback runs there, and that callback only posts.
// While a request is served a read is pending on the socket: it completes when the client closes, which
// cancels the sequence.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "coordinator/http/api_error.h"
#include "coordinator/http/generation.h"
#include "coordinator/http/server.h"

namespace numoe {

class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(boost::asio::ip::tcp::socket socket, const ServerDeps& deps);
  void Run();

 private:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  using Response = boost::beast::http::response<boost::beast::http::string_body>;

  void ReadRequest();
  void OnRequest(boost::beast::error_code error);
  void Route();
  bool Authorised();
  void Complete(bool chat);
  absl::StatusOr<std::vector<TokenId>> Prompt(const CompletionRequest& request, ApiError& error);
  absl::StatusOr<std::unique_ptr<TokenConstraint>> Constraint(const CompletionRequest& request,
                                                              absl::Span<const TokenId> prompt);
  void Submit(CompletionRequest request, std::vector<TokenId> prompt);
  void OnEvent(const TokenEvent& event);
  void OnError(const absl::Status& status);
  void WatchClient();
  void ClientGone();

  void Reply(int status, std::string body, const char* type = "application/json");
  void ReplyError(const ApiError& error);
  void StartStream();
  void Stream(std::string data);
  void EndStream();
  void WriteNext();
  void Log(int status);
  void Next();

  boost::beast::tcp_stream stream_;
  const ServerDeps& deps_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  Request request_;
  std::string request_id_;
  std::chrono::steady_clock::time_point started_;

  // The generation in progress.
  std::optional<Generation> generation_;
  std::optional<SequenceId> sequence_;
  bool streaming_ = false;
  bool stream_headers_sent_ = false;
  bool keep_alive_ = true;
  uint64_t round_ = 0;             // events of an earlier request's sequence are dropped
  std::deque<std::string> queue_;  // stream data waiting to be written
  size_t queued_bytes_ = 0;
  bool writing_ = false;
  bool ending_ = false;
  char probe_ = 0;
};

}  // namespace numoe
