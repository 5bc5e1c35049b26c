#include "coordinator/serving/page/page_routes.h"

#include <string_view>

#include "common/base/check.h"
#include "coordinator/serving/page/page_file.h"

namespace numoe::serving {
namespace {

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
  exchange->Reply({.status = known ? 304 : 200,
                   .body = std::string(file->content),
                   .type = file->type,
                   .headers = {{"ETag", file->etag},
                               {"Cache-Control", "no-cache"},
                               {"Content-Security-Policy", kPageSecurityPolicy},
                               {"Referrer-Policy", "no-referrer"},
                               {"X-Content-Type-Options", "nosniff"}}});
}

}  // namespace

void AddPageRoutes(net::UrlTable& urls) {
  urls.Add({.method = "GET",
            .pattern = "/",
            .summary = "The page: conversation and live view",
            .handle = Answer,
            .open = true});
  urls.Add({.method = "GET",
            .pattern = "/page/{}",
            .summary = "The page's scripts and styles",
            .handle = Answer,
            .open = true});
}

}  // namespace numoe::serving
