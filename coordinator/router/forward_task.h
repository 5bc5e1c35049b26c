// ForwardTask: passes one request to a backend, and streams the answer back.
//
// The task and the backend's connection run on the executor of the client's connection, so nothing is locked.
// The task holds at most one piece of an answer and reads the next when the client has taken it. It tries
// another backend if the request cannot have run - the backend was not reached, or refused it with 429 or 503
// - and once if the backend was lost before the client had received any of the answer and the request may run
// twice. Only once, because a request that makes coordinators crash must not reach all of them. An answer
// that breaks off later ends as incomplete: a stream of events with an error event, another answer without
// its last chunk. If the client disconnects, the backend's connection is closed, and with it the computation
// ends.
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
  /// `backends` outlives the exchange's server. `repeatable`: the request may run twice, because it stores
  /// and changes nothing.
  ForwardTask(Backends& backends, std::shared_ptr<net::Exchange> exchange, bool repeatable);

  /// Sends the request to the best backend for the prompt. All functions run on the exchange's executor.
  void Start(PromptPrefix prompt);
  /// Sends the request to this backend and to no other.
  void StartAt(int backend);

 private:
  void Begin(std::optional<BackendChoice> choice);
  void Try();
  /// Returns the functions of this attempt, which hold the client, because it must outlive its exchange.
  net::HttpEvents Events(std::shared_ptr<net::HttpClient> client);
  void OnHead(const net::HttpHeaders& headers);
  absl::Status OnBody(std::string_view bytes);
  void OnEnd(const absl::Status& end);
  void OnRefusal();
  void OnLost(const std::string& why);
  void OnStreamBroken(const std::string& why);
  void Unreached(const std::string& why);
  /// Returns whether another backend tries the request now.
  bool TryElsewhere();
  void Fail(int http_status, const std::string& message);

  Backends& backends_;
  const std::shared_ptr<net::Exchange> exchange_;
  const bool repeatable_;
  PromptPrefix prompt_;
  BackendSet tried_;
  std::optional<BackendChoice> choice_;
  std::string backend_;                        // its name
  std::weak_ptr<net::HttpExchange> upstream_;  // its events hold this task
  int attempt_ = 0;                            // events of earlier attempts are dropped
  bool gone_ = false;
  bool lost_ = false;  // a backend was lost while it answered

  // State of the current attempt.
  bool connected_ = false;
  int status_ = 0;
  bool streaming_ = false;
  std::optional<EventRelay> events_;     // set for a stream of events
  bool refused_ = false;                 // the status is 429 or 503, and whole_ says why
  std::optional<net::HttpReply> whole_;  // set for an answer that is passed on in one piece
};

}  // namespace numoe::router
