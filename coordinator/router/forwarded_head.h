// What of a request's and an answer's head is passed on: all but what concerns one connection alone.
//
// RFC 9110, 7.6.1: Connection, the fields that it names, and those that are about framing. Host, ids and CORS
// are the router's own. Pure functions.
#pragma once

#include "coordinator/net/client/http_client.h"
#include "coordinator/net/http/exchange.h"

namespace numoe {

HttpHeaders ForwardedHeaders(const HttpRequest& request);
/// The answer without its body. `headers`: names in lower case.
HttpReply ForwardedReply(int status, const HttpHeaders& headers);
/// The body's length where the answer says one that is read whole, at most `bytes_max`.
bool IsShort(const HttpHeaders& headers, size_t bytes_max);

}  // namespace numoe
