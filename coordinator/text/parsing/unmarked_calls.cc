#include "coordinator/text/parsing/unmarked_calls.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {
namespace {

constexpr std::string_view kUnmarkedFunctionTag = "<function=";
constexpr std::string_view kAfterFunctionTag[] = {"<parameter=", "</function>"};
constexpr size_t kHeadSpaceBytesMax = 64;

enum class Head : uint8_t { kNone, kUndecided, kComplete };

Head Matches(std::string_view text, std::string_view tag) {
  const size_t shared = std::min(text.size(), tag.size());
  if (text.substr(0, shared) != tag.substr(0, shared)) return Head::kNone;
  return text.size() >= tag.size() ? Head::kComplete : Head::kUndecided;
}

// Matches white space and one of the tags that may follow <function=NAME>.
Head MatchAfterName(std::string_view text) {
  const size_t space = std::min(text.find_first_not_of(kWhiteSpace), text.size());
  if (space > kHeadSpaceBytesMax) return Head::kNone;
  Head best = Head::kNone;
  for (const std::string_view tag : kAfterFunctionTag)
    best = std::max(best, Matches(text.substr(space), tag));
  return best;
}

// Matches the head of a call of one of `tools`. REQUIRES: `tag` begins with '<'.
Head MatchHead(std::string_view tag, const std::vector<DeclaredTool>& tools) {
  NUMOE_DCHECK(!tag.empty() && tag.front() == '<');
  if (const Head function = Matches(tag, kUnmarkedFunctionTag); function != Head::kComplete) return function;
  tag.remove_prefix(kUnmarkedFunctionTag.size());
  Head best = Head::kNone;
  for (const DeclaredTool& tool : tools) {
    const Head name = Matches(tag, tool.name);
    if (name != Head::kComplete) {
      best = std::max(best, name);
      continue;
    }
    const std::string_view after = tag.substr(tool.name.size());
    const Head close = Matches(after, ">");
    best = std::max(best, close == Head::kComplete ? MatchAfterName(after.substr(1)) : close);
  }
  return best;
}

}  // namespace

UnmarkedCall FindUnmarkedCall(std::string_view pending, const std::vector<DeclaredTool>& tools) {
  for (size_t at = pending.find('<'); at != std::string_view::npos; at = pending.find('<', at + 1)) {
    const Head head = MatchHead(pending.substr(at), tools);
    if (head != Head::kNone) return {.text_bytes = at, .found = head == Head::kComplete};
  }
  return {.text_bytes = pending.size(), .found = false};
}

}  // namespace numoe::text
