#include "coordinator/api/api_service.h"

#include <memory>

#include "common/base/version.h"
#include "common/weights/json_reader.h"
#include "coordinator/api/generation_routes.h"
#include "coordinator/api/messages_routes.h"
#include "coordinator/api/openapi.h"
#include "coordinator/api/token_routes.h"

namespace numoe {
namespace {

// Preparing takes a core for milliseconds at most; two keep a long prompt from holding up the others.
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

void ApiService::Register(Router& router) {
  AddGenerationRoutes(router, deps_, running_, preparers_);
  AddMessagesRoutes(router, deps_, preparers_);
  responses_.Register(router);
  AddTokenRoutes(router, deps_, preparers_);
  state_.Register(router);
  AddOpenApi(router);
}

void ApiService::AddOpenApi(Router& router) {
  router.Add({.method = "GET",
              .pattern = "/openapi.json",
              .summary = "This document",
              .handle =
                  [this, &router](const std::shared_ptr<Exchange>& exchange) {
                    // When it is asked for first the router has all its routes.
                    std::call_once(openapi_made_, [this, &router] {
                      openapi_ = DumpJson(OpenApiDocument(router, std::string(Version())));
                    });
                    exchange->Reply({.body = openapi_});
                  },
              .open = true});
}

}  // namespace numoe
