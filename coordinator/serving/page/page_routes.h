// AddPageRoutes: "/" and "/page/NAME" for a UrlTable, answered from the binary.
//
// Open to everybody: the page asks for a key itself. Every file has its ETag, its security policy and nothing
// that a browser could guess. The handlers are pure and run on the connection's executor.
#pragma once

#include "coordinator/net/http/url_table.h"

namespace numoe::serving {

/// REQUIRES: the table has no route of these patterns.
void AddPageRoutes(net::UrlTable& urls);

}  // namespace numoe::serving
