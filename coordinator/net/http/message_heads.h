// The heads of HTTP messages: what a request's says, headers that every response has, those of CORS, and how
// the body's end is told.
//
// Pure functions, except that a request without an id gets a random one, and that answers have the time.
#pragma once

#include <string>

#include "coordinator/net/http/exchange.h"
#include "coordinator/net/http/page_origins.h"
#include "coordinator/net/http/request_head.h"

namespace numoe::net {

std::string NewRequestId();
/// The request without its body.
HttpRequest RequestOf(RequestHead head);
/// What a stream of server-sent events begins with.
HttpReply EventStream();
/// The answer to OPTIONS, of a browser that asks what a page may do, or of anybody. `methods`: of the path;
/// "": it is not there.
HttpReply OptionsReply(const HttpRequest& request, const std::string& methods);

/// How the client's protocol is spoken.
struct AnswerFraming {
  bool http10 = false;  // it knows no chunks: a stream ends with its connection
  bool keep_alive = false;
};
/// A whole answer.
std::string WholeAnswer(const HttpRequest& request, const HttpReply& reply, const PageOrigins& pages,
                        AnswerFraming framing);
/// The status line and headers of an answer whose body follows in pieces.
std::string StreamHead(const HttpRequest& request, const HttpReply& reply, const PageOrigins& pages,
                       AnswerFraming framing);

}  // namespace numoe::net
