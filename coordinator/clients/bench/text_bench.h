// `numoe-bench text`: what text costs on its way to tokens and back, on one thread.
//
// Tokenising English and Chinese (bench_texts.h) with the model's vocabulary, rendering conversations of 200
// messages with its chat template or others, turning the tokens of an answer with reasoning and a tool call
// back into deltas (parse), and into the events of a stream in each dialect (say). Every figure is the median
// of repetitions. Prints a table, or one JSON object per line.
#pragma once

#include <string>
#include <vector>

namespace numoe::clients {

struct TextBenchOptions {
  std::string model;                   // a folder with a tokeniser, or a GGUF file
  std::vector<std::string> templates;  // files; none: the model's own, if it has one
  std::vector<std::string> texts;      // files to tokenise; none: bench_texts.h
  std::string save_texts;              // a folder for the texts measured, NAME.txt
  std::string save_tokens;             // and one for their tokens, NAME.ids, to compare with other tokenisers
  bool json = false;
};

/// The program's exit code.
int RunTextBench(const TextBenchOptions& options);

}  // namespace numoe::clients
