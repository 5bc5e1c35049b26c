// Connection: one client connection. It reads requests, calls the UrlTable's handlers for one request after
// the other, and notices when the client leaves.
//
// A connection runs on its own strand, except Exchange::Post and TakeBody. Whatever can be decided from a
// request's head (form, path, key, room) is decided before the body is read. While a request is answered, a
// read stays pending: bytes that it returns belong to the next request, and an error means that the client
// has gone. An end of file may mean that the client has only finished sending and still reads (nc -N), or
// that it has closed the connection; both look the same. Therefore the connection sends a few bytes without
// meaning: an interim answer (100 Continue, which every client knows), or, where a chunk is expected, the
// first digit of its length, 0. A host answers bytes to a closed socket with a reset, so a client that has
// gone is noticed at once. An HTTP/1.0 client that waits for the beginning of its answer knows neither; it
// counts as gone if the answer does not begin within a few seconds. Over TLS an end of file always means that
// the client has gone. Every state has a limit on the time without progress: handshake, idle, reading,
// writing. However a connection ends, the handler of an incomplete answer is told once (Exchange::OnGone).
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <memory>

#include "common/observe/metrics.h"
#include "coordinator/net/http/answer_log.h"
#include "coordinator/net/http/open_connections.h"
#include "coordinator/net/http/page_origins.h"
#include "coordinator/net/http/request_bodies.h"
#include "coordinator/net/http/server.h"

namespace numoe::net {

/// What all connections of a server share; it outlives them.
struct ServerParts {
  const std::atomic<const UrlTable*>& urls;
  Access& access;
  Metrics& metrics;
  const ServerOptions& options;
  const PageOrigins& pages;
  AnswerLog& log;
  std::shared_ptr<std::atomic<int>> answering;  // number of requests whose answers are not completely sent
  std::shared_ptr<OpenConnections> connections;
  std::shared_ptr<RequestBodies> bodies;
};

/// Serves the socket until it closes. `tls` is null for plain text. A connection that exceeds
/// --max-connections, while all others have complete requests with keys, answers one request of a route that
/// needs no key; it refuses every other request because there is no room.
void ServeConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
                     const ServerParts& parts);

}  // namespace numoe::net
