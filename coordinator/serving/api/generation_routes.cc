#include "coordinator/serving/api/generation_routes.h"

#include <memory>
#include <utility>

#include "coordinator/serving/api/messages_request.h"
#include "coordinator/serving/api/messages_writer.h"
#include "coordinator/serving/api/native_request.h"
#include "coordinator/serving/api/native_writer.h"
#include "coordinator/serving/api/openai_request.h"
#include "coordinator/serving/api/openai_writer.h"

namespace numoe::serving {
namespace {

template <typename Writer>
std::unique_ptr<AnswerWriter> Write(const GenerationRequest& request, AnswerContext context) {
  return std::make_unique<Writer>(request, std::move(context));
}

const Dialect kChat = {ReadChatRequest, Write<ChatWriter>, "chatcmpl-"};
const Dialect kText = {ReadTextRequest, Write<TextWriter>, "cmpl-"};
const Dialect kMessages = {.read = ReadMessagesRequest,
                           .write = Write<MessagesWriter>,
                           .id_prefix = "msg_",
                           .errors = net::ErrorShape::kAnthropic,
                           .unasked_thinking = UnaskedThinking::kOff};
const Dialect kNative = {ReadNativeRequest, Write<NativeWriter>, ""};

}  // namespace

void AddGenerationRoutes(net::UrlTable& urls, const ApiDeps& deps, RunningTasks& running,
                         PreparationPool& preparers) {
  const auto add = [&](const char* path, const char* summary, const Dialect& dialect) {
    urls.Add({.method = "POST",
              .pattern = path,
              .summary = summary,
              .handle =
                  [&deps, &running, &preparers, &dialect](std::shared_ptr<net::Exchange> exchange) {
                    std::make_shared<GenerationTask>(deps, running, std::move(exchange), dialect)
                        ->Start(preparers);
                  },
              .errors = dialect.errors});
  };
  add("/v1/chat/completions", "Answers a conversation (OpenAI)", kChat);
  add("/v1/completions", "Continues a text (OpenAI)", kText);
  add("/v1/messages", "Answers a conversation (Anthropic)", kMessages);
  add("/generate", "Continues texts or token ids (SGLang)", kNative);
}

}  // namespace numoe::serving
