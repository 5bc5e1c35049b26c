#include "coordinator/text/parsing/deepseek_calls.h"

namespace numoe::text {

void DeepSeekCallReader::Begin() {
  head_.clear();
  prefix_.clear();
  announced_ = false;
  trimmer_.Restart(/*keep_leading=*/false);
}

std::string DeepSeekCallReader::Name() const {
  const std::string_view head = Trimmed(head_);
  const std::string_view prefix = Trimmed(prefix_);
  const std::string_view first = Trimmed(prefix.substr(0, prefix.find_first_of("\n`")));
  return std::string(head == "function" && !first.empty() ? first : head);
}

void DeepSeekCallReader::Body(std::string_view text) {
  if (!announced_) {
    const size_t brace = text.find('{');
    prefix_ += text.substr(0, brace);
    if (brace == std::string_view::npos) return;
    text.remove_prefix(brace);
    const std::string name = Name();
    if (name.empty()) return;
    sink_.BeginCall(name);
    announced_ = true;
  }
  if (const std::string arguments = trimmer_.Push(text, /*hold_end=*/true); !arguments.empty())
    sink_.Arguments(arguments);
}

void DeepSeekCallReader::End(bool closed) {
  const std::string name = Name();
  if (announced_ || !closed || name.empty()) return;
  sink_.BeginCall(name);
  sink_.Arguments("{}");
}

}  // namespace numoe::text
