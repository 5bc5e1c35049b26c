// AddPeerFlags: the coordinator's flags under the names that other servers of language models give them.
//
// A flag of vLLM, SGLang, llama.cpp or KTransformers that means the same is an alias. One that cannot mean
// anything here is refused with what to use instead. Sources: vllm serve --help (0.19), python -m
// sglang.launch_server --help (0.5), llama-server --help (August 2026), KTransformers' kt flags of SGLang.
#pragma once

#include <string>
#include <vector>

#include "common/base/flags.h"

namespace numoe::startup {

/// REQUIRES: `flags` has the coordinator's own flags.
void AddPeerFlags(Flags& flags);

/// The words of --reasoning-parser and --tool-call-parser: ours first, then those of vLLM and SGLang.
std::vector<std::string> ReasoningParserWords();
std::vector<std::string> ToolCallParserWords();
/// Returns our word for one of these words.
std::string OwnReasoningParser(const std::string& word);
std::string OwnToolCallParser(const std::string& word);

}  // namespace numoe::startup
