// PageOrigins: which web pages may send requests, and which may read the answers (CORS).
//
// A browser sends the requests of every page that its user opens, even to a server that only this host can
// reach. Therefore a page may use a server without keys only if it comes from the server itself, from a
// program on the user's host, or from an origin that --allowed-origins lists. A server with keys accepts
// requests from every page unless a list says otherwise, since a foreign page can do nothing without a key.
// Browsers identify themselves by headers that no script can set (Fetch Standard, 4.6: Origin,
// Sec-Fetch-Site); other programs send none of them. A local server without keys also checks the name by
// which it is addressed: a page whose own name resolves to this host (DNS rebinding) would otherwise have the
// server's own origin, unless TLS makes the browser check the server's name. Immutable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/net/http/api_error.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::net {

struct OriginRules {
  std::vector<std::string> listed;  // --allowed-origins; "*" means all
  bool keys = false;                // requests need a key
  bool loopback = false;            // only this host can reach the server
  bool certified = false;           // TLS: browsers check the server's name against its certificate
};

class PageOrigins {
 public:
  explicit PageOrigins(const OriginRules& rules);

  /// Why a request is refused: 421 because of the name in its URL, 403 because of its page's origin; nullopt
  /// if it is not.
  std::optional<ApiError> Refusal(const HttpRequest& request) const;
  /// The value of Access-Control-Allow-Origin; "" if the header is left out.
  std::string Allowed(const HttpRequest& request) const;

 private:
  bool MayAsk(const std::string& origin, const HttpRequest& request) const;
  bool IsNamed(const HttpRequest& request) const;

  const std::vector<std::string> listed_;  // in lower case
  const bool any_;                         // every origin is allowed
  const bool own_host_;                    // a server of this host without keys and without TLS
};

}  // namespace numoe::net
