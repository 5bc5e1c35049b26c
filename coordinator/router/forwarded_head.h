// Chooses the header fields of requests and answers that the router passes on.
//
// These are all except the fields of one connection (RFC 9110, 7.6.1): Connection, the fields that it names,
// and the fields about framing. The router sets Host, request ids and CORS fields itself. Pure functions.
#pragma once

#include "coordinator/net/client/http_client.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::router {

net::HttpHeaders ForwardedHeaders(const net::HttpRequest& request);
/// Returns whether an answer can have this status: 200 to 599.
bool IsFinalStatus(int status);
/// Returns the answer without its body. `headers` have names in lower case.
net::HttpReply ForwardedReply(int status, const net::HttpHeaders& headers);
/// Returns whether the headers name the body's length and it is at most `bytes_max`.
bool IsShort(const net::HttpHeaders& headers, size_t bytes_max);

}  // namespace numoe::router
