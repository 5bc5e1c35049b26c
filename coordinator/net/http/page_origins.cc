#include "coordinator/net/http/page_origins.h"

#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/net/http/authority.h"
#include "coordinator/net/http/lower_case.h"
#include "coordinator/net/http/request_head.h"

namespace numoe::net {
namespace {

std::vector<std::string> InLowerCase(std::vector<std::string> texts) {
  for (std::string& text : texts) text = LowerCase(text);
  return texts;
}

bool Has(const std::vector<std::string>& texts, std::string_view text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

struct WebOrigin {
  Authority server;
  std::string default_port;
};

// Returns the origin of a page of the web; nullopt for "null" and for origins without a server, such as the
// page of an installed program.
std::optional<WebOrigin> ReadWebOrigin(std::string_view origin) {
  for (const auto& [scheme, port] : {std::pair("http://", "80"), std::pair("https://", "443")}) {
    if (!origin.starts_with(scheme)) continue;
    auto server = ReadAuthority(origin.substr(std::string_view(scheme).size()));
    if (server) return WebOrigin{*std::move(server), port};
  }
  return std::nullopt;
}

// Whether a page comes from this server. The scheme is not compared, because a proxy may end TLS; a port that
// is left out is the scheme's default port.
bool IsOwn(const WebOrigin& origin, const std::string& asked) {
  const auto server = ReadAuthority(asked);
  if (!server || server->host.empty() || server->host != origin.server.host) return false;
  const auto port = [&](const std::string& named) { return named.empty() ? origin.default_port : named; };
  return port(server->port) == port(origin.server.port);
}

}  // namespace

PageOrigins::PageOrigins(const OriginRules& rules)
    : listed_(InLowerCase(rules.listed)),
      any_(Has(rules.listed, "*") || (rules.listed.empty() && rules.keys)),
      own_host_(rules.loopback && !rules.keys && !rules.certified) {}

bool PageOrigins::MayAsk(const std::string& origin, const HttpRequest& request) const {
  if (any_ || Has(listed_, origin)) return true;
  const auto web = ReadWebOrigin(origin);
  if (web) return IsOwn(*web, request.authority) || (listed_.empty() && IsLoopbackName(web->server.host));
  // An extension or a desktop program, such as app://..., was installed by the user. "null" may be any page.
  return listed_.empty() && origin.find("://") != std::string::npos && !origin.starts_with("http");
}

// Whether the request uses a name of this host. A name that could resolve to another host comes from the
// public name service and has a dot.
bool PageOrigins::IsNamed(const HttpRequest& request) const {
  const auto asked = ReadAuthority(request.authority);
  if (!asked) return false;
  const std::string& host = asked->host;
  if (host.find('.') == std::string::npos || IsAddress(host) || IsLoopbackName(host)) return true;
  return std::any_of(listed_.begin(), listed_.end(), [&](const std::string& origin) {
    const auto web = ReadWebOrigin(origin);
    return web && web->server.host == host;
  });
}

std::optional<ApiError> PageOrigins::Refusal(const HttpRequest& request) const {
  if (own_host_ && !any_ && !IsNamed(request)) {
    return ApiError{
        .http_status = 421,
        .message = fmt::format(
            "this server has no API keys and accepts only requests to a name of its own host, such as "
            "localhost or 127.0.0.1; this request is addressed to {}; start the server with "
            "--allowed-origins http://NAME to allow this name, or with --api-key-file to allow any",
            Shown(request.authority)),
        .code = "misdirected_request"};
  }
  const std::string origin = LowerCase(request.Header("origin"));
  const std::string_view site = request.Header("sec-fetch-site");
  const bool foreign =
      origin.empty() ? site == "cross-site" && !any_ : site != "same-origin" && !MayAsk(origin, request);
  if (!foreign) return std::nullopt;
  return ApiError{
      .http_status = 403,
      .message = fmt::format(
          "requests from web pages of the origin {} are refused; --allowed-origins lists the origins "
          "that are allowed",
          origin.empty() ? "(another site)" : Shown(origin)),
      .type = "permission_error",
      .code = "origin_not_allowed"};
}

std::string PageOrigins::Allowed(const HttpRequest& request) const {
  NUMOE_DCHECK(any_ || !Has(listed_, "*"));
  const std::string origin(request.Header("origin"));
  if (origin.empty()) return "";
  if (any_) return "*";
  return MayAsk(LowerCase(origin), request) ? origin : "";
}

}  // namespace numoe::net
