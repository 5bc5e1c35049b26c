// PageOrigins: which web pages' requests are carried out, and which pages may read the answers (CORS).
//
// A browser sends the requests of any page that its user opens, also to a server that only this host can
// reach. So a page may ask a server without keys only if the server itself, a program of the user's host, or
// an origin that --allowed-origins lists has made it. Where keys are asked for, a page of others can do
// nothing without one, and all may ask unless a list says otherwise. What a browser sends is told by the
// fields that no script can set (Fetch Standard, 4.6: Origin, Sec-Fetch-Site); programs send none of them.
// A server of this host without keys is also asked by its right name: a page whose own name leads to this
// host (DNS rebinding) would be its own origin, unless TLS tells the browser the server's name. Immutable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "coordinator/net/http/api_error.h"
#include "coordinator/net/http/exchange.h"

namespace numoe::net {

struct OriginRules {
  std::vector<std::string> listed;  // of --allowed-origins; "*": all
  bool keys = false;                // requests need one
  bool loopback = false;            // only this host reaches the server
  bool certified = false;           // TLS: browsers hold the server's name against its certificate
};

class PageOrigins {
 public:
  explicit PageOrigins(const OriginRules& rules);

  /// Why a request is not carried out: 421 by its name of the server, 403 by its page's origin.
  std::optional<ApiError> Refusal(const HttpRequest& request) const;
  /// The value of Access-Control-Allow-Origin; "": the browser is told nothing.
  std::string Allowed(const HttpRequest& request) const;

 private:
  bool MayAsk(const std::string& origin, const HttpRequest& request) const;
  bool IsNamed(const HttpRequest& request) const;

  const std::vector<std::string> listed_;  // in lower case
  const bool any_;
  const bool own_host_;  // a server of this host without keys and TLS
};

}  // namespace numoe::net
