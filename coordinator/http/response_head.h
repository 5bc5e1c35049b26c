// The head of a response: headers that every one has, those of CORS, and where a stream's body begins.
//
// Pure functions.
#pragma once

#include <boost/beast/http.hpp>
#include <string>

#include "coordinator/http/exchange.h"
#include "coordinator/http/server.h"

namespace numoe {

using HttpResponse = boost::beast::http::response<boost::beast::http::string_body>;

/// Adds what CORS asks for where the request names an origin that may ask.
void AddCorsHeaders(const HttpRequest& request, const ServerOptions& options, HttpResponse& response);
/// The answer to a preflight request.
HttpResponse PreflightResponse(const HttpRequest& request, const ServerOptions& options);
HttpResponse MakeResponse(const HttpRequest& request, HttpReply reply, const ServerOptions& options,
                          bool keep_alive);
/// The status line and headers of an answer whose body is sent in chunks.
std::string ChunkedHead(const HttpRequest& request, const HttpReply& reply, const ServerOptions& options,
                        bool keep_alive);

}  // namespace numoe
