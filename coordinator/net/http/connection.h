// Connection: one client connection. Reads requests, has the UrlTable's handlers answer them one after the
// other, and notices when the client leaves.
//
// Lives on its own strand: everything but Exchange::Post and TakeBody runs there. What a request's head alone
// decides - form, path, key, room - is answered before its body is read. While a request is answered a read
// is pending: what it brings belongs to the next request, and if it fails the client has gone. If it finds
// the end of what the client sends, the client may still read (nc -N), or have closed altogether, which looks
// the same. It is sent a few bytes that mean nothing - an interim answer (100 Continue, which every client
// knows), or where a chunk is to come the first digit of its length, 0 - for whose host answers bytes to a
// closed socket with a reset: then it has gone, at once. Where an HTTP/1.0 client waits for its answer to
// begin, there are no such bytes: it has gone if the answer does not begin within a few seconds. Over TLS the
// end means that it has gone. Times without progress are
// bounded in every state: handshake, idle, reading, writing. However a connection ends, who makes its answer
// is told once (Exchange::OnGone), unless the answer was whole by then.
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

/// What all connections of a server share, and outlives them.
struct ServerParts {
  const std::atomic<const UrlTable*>& urls;
  Access& access;
  Metrics& metrics;
  const ServerOptions& options;
  const PageOrigins& pages;
  AnswerLog& log;
  std::shared_ptr<std::atomic<int>> answering;  // requests whose answers are not yet out
  std::shared_ptr<OpenConnections> connections;
  std::shared_ptr<RequestBodies> bodies;
};

/// Serves the socket until it closes. `tls`: null for plain text. A connection that came while
/// --max-connections others had whole requests of keys in hand answers one request that needs no key; to all
/// others it says that there is no room.
void ServeConnection(boost::asio::ip::tcp::socket socket, std::shared_ptr<boost::asio::ssl::context> tls,
                     const ServerParts& parts);

}  // namespace numoe::net
