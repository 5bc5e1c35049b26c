// Kimi's tool calls: the head is an id, functions.NAME:IDX, and the body is the arguments.
//
// Names may contain dots, dashes and any other characters except white space. The model's slips in the id are
// tolerated: white space inside it, and a missing prefix, counter or colon. An id that is only a counter does
// not name a tool; the arguments are then kept until the call ends, and the tool that they fit is chosen.
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
  std::string kept_;  // the arguments so far of a call without a name
  bool announced_ = false;
  Trimmer trimmer_;
};

/// Returns the name in an id: functions.get_weather:0 -> get_weather. Returns "" if the id has only a
/// counter.
std::string KimiCallName(std::string_view id);

}  // namespace numoe::text
