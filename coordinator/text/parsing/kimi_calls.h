// Kimi's tool calls: the head is an id, functions.NAME:IDX, the body the arguments.
//
// Names may hold dots, dashes and anything but white space and colons. The model's slips are read for what
// they mean: white space inside the id, a missing prefix, counter or colon; an id that is a counter alone
// names no tool, so its arguments are kept until they tell which one is meant.
#pragma once

#include "coordinator/text/parsing/call_reader.h"
#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {

class KimiCallReader final : public CallReader {
 public:
  KimiCallReader(CallSink& sink, const std::vector<DeclaredTool>& tools) : sink_(sink), tools_(tools) {}

  void Begin() override;
  void Head(std::string_view text) override { head_ += text; }
  void Body(std::string_view text) override;
  void End(bool closed) override;

 private:
  CallSink& sink_;
  const std::vector<DeclaredTool>& tools_;
  std::string head_;
  std::string kept_;  // arguments of a call without a name
  bool announced_ = false;
  Trimmer trimmer_;
};

/// functions.get_weather:0 -> get_weather; "" where only a counter stands.
std::string KimiCallName(std::string_view id);

}  // namespace numoe::text
