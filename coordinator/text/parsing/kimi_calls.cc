#include "coordinator/text/parsing/kimi_calls.h"

#include <algorithm>

#include "common/base/check.h"

namespace numoe::text {
namespace {

bool AllDigits(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string KimiCallName(std::string_view id) {
  constexpr std::string_view kPrefix = "functions.";
  std::string name(id);
  std::erase_if(name, [](char c) { return kWhiteSpace.find(c) != std::string_view::npos; });
  if (const size_t colon = name.rfind(':');
      colon != std::string::npos && AllDigits(std::string_view(name).substr(colon + 1))) {
    name.erase(colon);
  }
  if (name.compare(0, kPrefix.size(), kPrefix) == 0) name.erase(0, kPrefix.size());
  return AllDigits(name) ? "" : name;
}

void KimiCallReader::Begin() {
  head_.clear();
  kept_.clear();
  announced_ = false;
  trimmer_.Restart(/*keep_leading=*/false);
}

void KimiCallReader::Body(std::string_view text) {
  const std::string arguments = trimmer_.Push(text, /*hold_end=*/true);
  if (arguments.empty()) return;
  if (!announced_) {
    const std::string name = KimiCallName(head_);
    if (name.empty()) {
      kept_ += arguments;
      return;
    }
    sink_.BeginCall(name);
    announced_ = true;
  }
  NUMOE_DCHECK(kept_.empty());
  sink_.Arguments(arguments);
}

void KimiCallReader::End(bool closed) {
  if (announced_ || (kept_.empty() && !closed)) return;
  std::string name = KimiCallName(head_);
  if (name.empty()) name = ToolByArguments(tools_, kept_);
  if (name.empty()) name = Trimmed(head_);
  if (name.empty()) return sink_.NoCall(kept_);
  sink_.BeginCall(name);
  sink_.Arguments(kept_.empty() ? "{}" : kept_);
}

}  // namespace numoe::text
