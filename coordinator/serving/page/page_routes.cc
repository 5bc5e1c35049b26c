#include "coordinator/serving/page/page_routes.h"

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/check.h"
#include "coordinator/serving/page/page_file.h"

namespace numoe::serving {
namespace {

using Headers = std::vector<std::pair<std::string, std::string>>;

// The headers that every file has, whatever its status.
Headers SafeHeaders() {
  return {{"Content-Security-Policy", kPageSecurityPolicy},
          {"Referrer-Policy", "no-referrer"},
          {"X-Content-Type-Options", "nosniff"}};
}

void Answer(const std::shared_ptr<net::Exchange>& exchange) {
  const net::HttpRequest& request = exchange->request();
  const PageFile* file = FindPageFile(request.path);
  if (file == nullptr) {
    return exchange->ReplyError({.http_status = 404,
                                 .message = "the page has no such file: " + request.path.substr(0, 200),
                                 .code = "not_found"});
  }
  const bool known = request.Header("if-none-match") == file->etag;
  NUMOE_CHECK(std::string_view(file->etag).starts_with('"')) << file->path << ": an ETag is a quoted string";
  Headers headers = SafeHeaders();
  headers.insert(headers.end(), {{"ETag", file->etag}, {"Cache-Control", "no-cache"}});
  exchange->Reply({.status = known ? 304 : 200,
                   .body = std::string(file->content),
                   .type = file->type,
                   .headers = std::move(headers)});
}

// A browser names text/html in what it accepts when a person opens an address; programs do not.
bool WantsHtml(const net::HttpRequest& request) {
  return request.Header("accept").find("text/html") != std::string_view::npos;
}

void AnswerStarting(const std::shared_ptr<net::Exchange>& exchange, const net::ApiError& refusal) {
  if (!WantsHtml(exchange->request())) return exchange->ReplyError(refusal);
  const PageFile* file = FindPageFile("/page/starting.html");
  NUMOE_CHECK(file != nullptr) << "starting.html is embedded";
  Headers headers = SafeHeaders();
  headers.insert(headers.end(), {{"Cache-Control", "no-store"}, {"Retry-After", "2"}, {"Vary", "Accept"}});
  exchange->Reply({.status = refusal.http_status,
                   .body = std::string(file->content),
                   .type = file->type,
                   .headers = std::move(headers)});
}

void AddPageFiles(net::UrlTable& urls) {
  urls.Add({.method = "GET",
            .pattern = "/page/{}",
            .summary = "The page's scripts and styles",
            .handle = Answer,
            .open = true});
}

}  // namespace

void AddPageRoutes(net::UrlTable& urls) {
  urls.Add({.method = "GET",
            .pattern = "/",
            .summary = "The page: conversation and live view",
            .handle = Answer,
            .open = true});
  AddPageFiles(urls);
}

void AddStartingPage(net::UrlTable& urls) {
  const auto found = urls.Find("GET", "/");
  const auto* refusal = std::get_if<net::ApiError>(&found);
  NUMOE_CHECK(refusal != nullptr && refusal->http_status == 503) << "a starting server refuses requests";
  urls.Add(
      {.method = "GET",
       .pattern = "/",
       .summary = "What the starting server does, for a browser",
       .handle = [error = *refusal](
                     const std::shared_ptr<net::Exchange>& exchange) { AnswerStarting(exchange, error); },
       .open = true});
  AddPageFiles(urls);
}

}  // namespace numoe::serving
