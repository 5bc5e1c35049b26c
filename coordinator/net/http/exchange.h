// Exchange: one HTTP request and its answer, as handlers see them.
//
// A handler answers in one of two ways: it calls Reply once, or BeginStream (or BeginBody), then Send any
// number of times, then EndStream (or Break). Handlers run on the connection's executor, and all functions
// except Post and TakeBody must be called there; Post brings work from other threads to it. When the client
// goes away or is cut off, the exchange is over: the function given to OnGone is called once, and later calls
// of Send and Post have no effect. The code that will answer holds the exchange.
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
  std::string target;                                        // as received, with the query
  std::string path;                                          // percent-decoded, without the query
  std::string authority;                                     // HOST[:PORT] of the request; may be empty
  std::vector<std::pair<std::string, std::string>> query;    // decoded
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::vector<std::string> captures;                         // the values of the route's {...}
  std::string body;
  std::string id;  // the client's x-request-id, or a random one
  Caller caller;   // the default value on a route that needs no key

  /// The first header of this name (lower case); "" if there is none.
  std::string_view Header(std::string_view name) const;
  /// The first value of this name in the query; "" if there is none.
  std::string_view Query(std::string_view name) const;
};

struct HttpReply {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  std::vector<std::pair<std::string, std::string>> headers;  // in addition to those of every reply
};

/// The slot that a request takes up within its key's limit of concurrent requests; it is freed when the last
/// reference is dropped. Thread-safe.
class ConcurrencySlot {
 public:
  virtual ~ConcurrencySlot() = default;
  /// Makes the request count as `sequences` requests of its key. Returns false if the key would exceed its
  /// limit. A request that is larger than the whole limit counts as the limit, so that it can run alone.
  [[nodiscard]] virtual bool Widen(int sequences) = 0;
};

class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual const HttpRequest& request() const = 0;
  /// Moves the body out of the request; call it once. A long prompt's text is not kept while it is answered,
  /// and no longer counts in the budget of bodies that wait to be read (request_bodies.h). May be called on
  /// another thread than the rest, by the one thread that reads the body.
  virtual std::string TakeBody() = 0;
  virtual void Reply(HttpReply reply) = 0;
  /// The error has the shape that the route's clients know.
  virtual void ReplyError(const ApiError& error) = 0;
  /// Begins an answer with status 200 and type text/event-stream.
  virtual void BeginStream() = 0;
  /// Begins an answer with this status and these headers; head.body is the beginning of its body.
  virtual void BeginBody(HttpReply head) = 0;
  virtual void Send(std::string data) = 0;
  virtual void EndStream() = 0;
  /// Closes the connection in the middle of the stream, so that the client sees that the answer is
  /// incomplete.
  virtual void Break() = 0;
  /// Adds to the request's line in the log, if it has one, what went wrong after the status had been sent.
  virtual void NoteFailure(std::string /*what*/) {}
  /// Calls `sent` once, when the operating system has taken all of the stream so far. A handler that produces
  /// more than a client reads waits for this.
  virtual void OnSent(std::function<void()> sent) = 0;
  virtual void OnGone(std::function<void()> gone) = 0;
  /// May be called on any thread. `work` is dropped if the exchange is over by the time it would run.
  virtual void Post(std::function<void()> work) = 0;
  /// The connection's executor, for connections to other servers that provide the answer.
  virtual boost::asio::any_io_executor Executor() = 0;
  /// The slot of this request within its key's limit, for work that continues after the request was answered:
  /// the slot stays taken until the last reference is dropped. Null if the request has no slot.
  virtual std::shared_ptr<ConcurrencySlot> Slot() = 0;
  /// Sets the number of generated tokens in the request's line of the log.
  virtual void CountTokens(int tokens) = 0;
};

}  // namespace numoe::net
