#include "coordinator/serving/api/api_service.h"

#include <memory>

#include "common/base/version.h"
#include "common/json/json_reader.h"
#include "coordinator/serving/api/absent_routes.h"
#include "coordinator/serving/api/generation_routes.h"
#include "coordinator/serving/api/messages_routes.h"
#include "coordinator/serving/api/openapi.h"
#include "coordinator/serving/api/token_routes.h"

namespace numoe::serving {
namespace {

// Preparing takes a core for milliseconds at most; with two threads a long prompt does not delay the others.
constexpr int kPreparers = 2;

}  // namespace

ApiService::ApiService(const ApiDeps& deps)
    : deps_(deps), preparers_(kPreparers), responses_(deps, running_, preparers_), state_(deps, running_) {}

ApiService::~ApiService() { Stop(); }

void ApiService::Stop() {
  preparers_.Stop();
  state_.Stop();
  responses_.Stop();
}

void ApiService::DropWork() {
  state_.DropWork();
  responses_.DropWork();
}

void ApiService::Register(net::UrlTable& urls) {
  AddGenerationRoutes(urls, deps_, running_, preparers_);
  AddMessagesRoutes(urls, deps_, preparers_);
  responses_.Register(urls);
  AddTokenRoutes(urls, deps_, preparers_);
  state_.Register(urls);
  AddOpenApi(urls);
  ExplainAbsentRoutes(urls);
}

void ApiService::AddOpenApi(net::UrlTable& urls) {
  urls.Add({.method = "GET",
            .pattern = "/openapi.json",
            .summary = "This document",
            .handle =
                [this, &urls](const std::shared_ptr<net::Exchange>& exchange) {
                  // The document is made at the first request, when the table has all its routes.
                  std::call_once(openapi_made_, [this, &urls] {
                    openapi_ = DumpJson(OpenApiDocument(urls, std::string(Version())));
                  });
                  exchange->Reply({.body = openapi_});
                },
            .open = true});
}

}  // namespace numoe::serving
