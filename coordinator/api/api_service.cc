#include "coordinator/api/api_service.h"

#include <algorithm>
#include <thread>

#include "common/base/version.h"
#include "coordinator/api/messages_request.h"
#include "coordinator/api/messages_writer.h"
#include "coordinator/api/native_request.h"
#include "coordinator/api/native_writer.h"
#include "coordinator/api/openai_request.h"
#include "coordinator/api/openai_writer.h"
#include "coordinator/api/openapi.h"

namespace numoe {
namespace {

template <typename Writer>
std::unique_ptr<AnswerWriter> Write(const GenerationRequest& request, AnswerContext context) {
  return std::make_unique<Writer>(request, std::move(context));
}

const Dialect kChat = {ReadChatRequest, Write<ChatWriter>, "chatcmpl-"};
const Dialect kText = {ReadTextRequest, Write<TextWriter>, "cmpl-"};
const Dialect kMessages = {ReadMessagesRequest, Write<MessagesWriter>, "msg_", ErrorShape::kAnthropic};
const Dialect kNative = {ReadNativeRequest, Write<NativeWriter>, ""};

// Preparing takes a core for milliseconds at most; two keep a long prompt from holding up the others.
constexpr int kPreparers = 2;

}  // namespace

ApiService::ApiService(const ApiDeps& deps) : deps_(deps), preparers_(kPreparers) {
  waiters_.emplace(1);
  background_.emplace(1);
}

ApiService::~ApiService() { Stop(); }

void ApiService::Stop() {
  preparers_.Stop();
  for (auto* threads : {&waiters_, &background_}) {
    if (!threads->has_value()) continue;
    (*threads)->stop();
    (*threads)->join();
  }
}

void ApiService::DropWork() {
  waiters_.reset();
  background_.reset();
}

void ApiService::Register(Router& router) {
  AddGeneration(router, "/v1/chat/completions", "An answer to a conversation (OpenAI)", kChat);
  AddGeneration(router, "/v1/completions", "What follows a text (OpenAI)", kText);
  AddGeneration(router, "/v1/messages", "An answer to a conversation (Anthropic)", kMessages);
  AddGeneration(router, "/generate", "What follows texts or token ids (SGLang)", kNative);
  RegisterMessages(router);
  RegisterResponses(router);
  RegisterTokens(router);
  RegisterState(router);
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

void ApiService::AddGeneration(Router& router, const std::string& path, const std::string& summary,
                               const Dialect& dialect) {
  router.Add({.method = "POST",
              .pattern = path,
              .summary = summary,
              .handle =
                  [this, &dialect](std::shared_ptr<Exchange> exchange) {
                    std::make_shared<GenerationTask>(deps_, running_, std::move(exchange), dialect)
                        ->Start(preparers_);
                  },
              .errors = dialect.errors});
}

}  // namespace numoe
