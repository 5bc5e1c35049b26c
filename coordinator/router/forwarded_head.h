// What of a request's and an answer's head is passed on: all but what concerns one connection alone.
//
// RFC 9110, 7.6.1: Connection, the fields that it names, and those that are about framing. Host, ids and CORS
// are the router's own. Pure functions.
#pragma once

#include "coordinator/net/client/http_client.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::router {

net::HttpHeaders ForwardedHeaders(const net::HttpRequest& request);
/// Whether an answer can have this status: one that is final, and of HTTP.
bool IsFinalStatus(int status);
/// The answer without its body. `headers`: names in lower case.
net::HttpReply ForwardedReply(int status, const net::HttpHeaders& headers);
/// The body's length where the answer says one that is read whole, at most `bytes_max`.
bool IsShort(const net::HttpHeaders& headers, size_t bytes_max);

}  // namespace numoe::router
