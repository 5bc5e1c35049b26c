// The heads of HTTP messages: a request is made from its head, and responses get their common headers, the
// headers of CORS and the header that tells where the body ends.
//
// Pure functions, except that a request without an id gets a random one, and that responses contain the time.
#pragma once

#include <string>

#include "coordinator/net/http/exchange.h"
#include "coordinator/net/http/page_origins.h"
#include "coordinator/net/http/request_head.h"

namespace numoe::net {

std::string NewRequestId();
/// The request without its body.
HttpRequest RequestOf(RequestHead head);
/// Status and headers of a stream of server-sent events.
HttpReply EventStream();
/// The answer to OPTIONS, for a browser that asks what a page may do, and for any other client. `methods` are
/// those of the path; "" if the path does not exist.
HttpReply OptionsReply(const HttpRequest& request, const std::string& methods);

/// What the client's version of HTTP and its connection allow.
struct AnswerFraming {
  bool http10 = false;  // the client knows no chunks: a stream ends with its connection
  bool keep_alive = false;
};
/// Head and body of a complete answer.
std::string WholeAnswer(const HttpRequest& request, const HttpReply& reply, const PageOrigins& pages,
                        AnswerFraming framing);
/// The status line and headers of an answer whose body follows in pieces.
std::string StreamHead(const HttpRequest& request, const HttpReply& reply, const PageOrigins& pages,
                       AnswerFraming framing);

}  // namespace numoe::net
