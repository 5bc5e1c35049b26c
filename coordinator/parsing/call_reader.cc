#include "coordinator/parsing/call_reader.h"

#include "common/base/check.h"
#include "coordinator/parsing/kimi_calls.h"

namespace numoe {

std::unique_ptr<CallReader> MakeCallReader(ToolSyntax syntax, CallSink& sink,
                                           const std::vector<DeclaredTool>& tools) {
  NUMOE_CHECK(syntax != ToolSyntax::kNone);
  return std::make_unique<KimiCallReader>(sink, tools);
}

}  // namespace numoe
