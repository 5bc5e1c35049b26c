// AddPageRoutes and AddStartingPage: "/" and "/page/NAME" of a UrlTable, answered with files in the binary.
//
// The routes need no key: the page asks for one itself. Every reply has the page's security policy, and a
// header that forbids the browser to guess the type; the files have an ETag. While the model is loaded, "/"
// answers a browser with a page that shows what the server does and opens the chat when it is ready. The
// handlers are pure functions and run on the connection's executor.
#pragma once

#include "coordinator/net/http/url_table.h"

namespace numoe::serving {

/// Adds the page of a server that has loaded its model. REQUIRES: the table has no routes of these patterns.
void AddPageRoutes(net::UrlTable& urls);

/// Adds the page of a server that is starting: status 503 with HTML if the request accepts text/html, and the
/// table's own 503 otherwise. REQUIRES: the table refuses others with 503 (AddStartingRoutes), and has no
/// routes of these patterns.
void AddStartingPage(net::UrlTable& urls);

}  // namespace numoe::serving
