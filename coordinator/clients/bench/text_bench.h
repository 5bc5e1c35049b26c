// `numoe-bench text`: measures on one thread what it costs to turn text into tokens and back.
//
// It tokenises English and Chinese (bench_texts.h) with the model's vocabulary, renders conversations of 200
// messages with the model's chat template or others, and turns the tokens of an answer with reasoning and a
// tool call into deltas (parse) and into the events of a stream of each API (say). Every figure is the median
// of repetitions. It prints a table, or one JSON object per line.
#pragma once

#include <string>
#include <vector>

namespace numoe::clients {

struct TextBenchOptions {
  std::string model;                   // a folder with a tokeniser, or a GGUF file
  std::vector<std::string> templates;  // files; if empty, the model's template, if it has one
  std::vector<std::string> texts;      // files to tokenise; if empty, the texts of bench_texts.h
  std::string save_texts;              // a folder for the measured texts, NAME.txt
  std::string save_tokens;  // a folder for their tokens, NAME.ids, to compare with other tokenisers
  bool json = false;
};

/// Returns the program's exit code.
int RunTextBench(const TextBenchOptions& options);

}  // namespace numoe::clients
