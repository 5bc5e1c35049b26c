// Exchange: one HTTP request and its answer, as handlers see them.
//
// A handler answers in one of two ways: Reply once, or BeginStream (or BeginBody), any number of Send,
// EndStream (or Break). Handlers run on the connection's executor, and everything here but Post and TakeBody
// must be called there; Post brings work from other threads to it. When the client goes away or is cut off,
// the exchange is over: OnGone's function is called once, what is sent from then on is dropped, and so is
// what was posted. Whoever will answer holds the exchange.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coordinator/net/http/api_error.h"
#include "coordinator/net/http/caller.h"

namespace numoe::net {

struct HttpRequest {
  std::string method;                                        // GET, POST, ...
  std::string target;                                        // as it came, with the query
  std::string path;                                          // percent-decoded, without the query
  std::string authority;                                     // HOST[:PORT] that is asked; may be empty
  std::vector<std::pair<std::string, std::string>> query;    // decoded
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::vector<std::string> captures;                         // what the route's {...} stand for
  std::string body;
  std::string id;  // the client's x-request-id, or one made here
  Caller caller;   // whose it is; nobody's on a route that is asked without a key

  /// The first header of this name (lower case); "" if there is none.
  std::string_view Header(std::string_view name) const;
  /// The first value of this name in the query; "" if there is none.
  std::string_view Query(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // besides those that every reply has
};

/// A request's place among those of its key; given back when the last reference is dropped. Thread-safe.
class RequestPlace {
 public:
  virtual ~RequestPlace() = default;
  /// From now on the request counts as `sequences` requests of its key. Returns false if that would exceed
  /// what the key may have at once. A request that is larger than the key's whole limit counts as the limit,
  /// so that it can run alone.
  [[nodiscard]] virtual bool Widen(int sequences) = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  /// The request's body, once, by whoever reads it now: a long prompt's text is not kept while it is
  /// answered, and has left the budget of what waits to be read (request_bodies.h). From the one thread that
  /// reads it.
  virtual std::string TakeBody() = 0;
  virtual void Reply(HttpReply reply) = 0;
  /// In the shape that the route's clients know.
  virtual void ReplyError(const ApiError& error) = 0;
  /// 200 and text/event-stream.
  virtual void BeginStream() = 0;
  /// The same with a head of one's own; its body is what the answer begins with.
  virtual void BeginBody(HttpReply head) = 0;
  virtual void Send(std::string data) = 0;
  virtual void EndStream() = 0;
  /// Closes the connection in the middle of the stream: the client sees that this was not all.
  virtual void Break() = 0;
  /// For the request's line in the log, if it has one: what went wrong behind the status that was sent.
  virtual void NoteFailure(std::string /*what*/) {}
  /// Calls `sent` once, when all of the stream so far is the system's: whoever sends more than a client
  /// reads waits for it.
  virtual void OnSent(std::function<void()> sent) = 0;
  virtual void OnGone(std::function<void()> gone) = 0;
  /// From any thread; dropped if the exchange is over by then.
  virtual void Post(std::function<void()> work) = 0;
  /// The connection's own, for connections to others that its answer comes from.
  virtual boost::asio::any_io_executor Executor() = 0;
  /// The request's place among those of its key, for work that goes on when it has been answered: the place
  /// is taken until the last holder lets go. Null: it has none.
  virtual std::shared_ptr<RequestPlace> Place() = 0;
  /// For the request's line in the log.
  virtual void CountTokens(int tokens) = 0;
};

}  // namespace numoe::net
