#include "coordinator/text/parsing/call_reader.h"

#include "common/base/check.h"
#include "coordinator/text/parsing/deepseek_calls.h"
#include "coordinator/text/parsing/hermes_calls.h"
#include "coordinator/text/parsing/kimi_calls.h"
#include "coordinator/text/parsing/qwen_coder_calls.h"

namespace numoe::text {

std::unique_ptr<CallReader> MakeCallReader(ToolSyntax syntax, CallSink& sink,
                                           const std::vector<DeclaredTool>& tools) {
  switch (syntax) {
    case ToolSyntax::kKimi:
      return std::make_unique<KimiCallReader>(sink, tools);
    case ToolSyntax::kDeepSeek:
      return std::make_unique<DeepSeekCallReader>(sink);
    case ToolSyntax::kHermes:
      return std::make_unique<HermesCallReader>(sink);
    case ToolSyntax::kQwenCoder:
      return std::make_unique<QwenCoderCallReader>(sink, tools);
    case ToolSyntax::kNone:
      break;
  }
  NUMOE_CHECK(false) << "this format has no tool calls";
  return nullptr;
}

}  // namespace numoe::text
