// ForwardTask: one request handed to a backend, and its answer handed back as it comes.
//
// Runs on the connection's executor, the backend's connection too, so nothing is locked. At most one piece of
// an answer is held: the next is read when the client has taken it. A request is tried elsewhere where it
// cannot have run - its backend was not reached, or refused it with 429 or 503 - and once where its backend
// was lost before any of the answer had come to the client, if running it again does no harm. Once, because a
// request that kills coordinators must not be carried to all of them. An answer that breaks off later ends as
// a broken one: a stream of events with one that says so, another without its last chunk. The client's
// leaving ends the backend's connection, and so what it computes.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "coordinator/net/http/exchange.h"
#include "coordinator/router/backends.h"
#include "coordinator/router/event_relay.h"

namespace numoe::router {

class ForwardTask : public std::enable_shared_from_this<ForwardTask> {
 public:
  /// `backends` outlives the exchange's server. `repeatable`: the request may run twice, as one that keeps
  /// nothing and changes nothing.
  ForwardTask(Backends& backends, std::shared_ptr<net::Exchange> exchange, bool repeatable);

  /// To whoever is best for the prompt. On the exchange's executor, as everything here.
  void Start(PromptPrefix prompt);
  /// To this backend and no other.
  void StartAt(int backend);

 private:
  void Begin(std::optional<BackendChoice> choice);
  void Try();
  /// Of this attempt. They hold the client, which outlives its exchange.
  net::HttpEvents Events(std::shared_ptr<net::HttpClient> client);
  void OnHead(const net::HttpHeaders& headers);
  absl::Status OnBody(std::string_view bytes);
  void OnEnd(const absl::Status& end);
  void OnRefusal();
  void OnLost(const std::string& why);
  void OnStreamBroken(const std::string& why);
  void Unreached(const std::string& why);
  /// Whether another backend tries it now.
  bool TryElsewhere();
  void Fail(int http_status, const std::string& message);

  Backends& backends_;
  const std::shared_ptr<net::Exchange> exchange_;
  const bool repeatable_;
  PromptPrefix prompt_;
  BackendSet tried_;
  std::optional<BackendChoice> choice_;
  std::string backend_;                        // its name
  std::weak_ptr<net::HttpExchange> upstream_;  // whose events hold this
  int attempt_ = 0;                            // events of earlier ones are dropped
  bool gone_ = false;
  bool lost_ = false;  // a backend was, while it answered

  // Of this attempt.
  bool connected_ = false;
  int status_ = 0;
  bool streaming_ = false;
  std::optional<EventRelay> events_;     // that are streamed
  bool refused_ = false;                 // 429 or 503: whole_ says why
  std::optional<net::HttpReply> whole_;  // an answer that is passed on in one piece
};

}  // namespace numoe::router
