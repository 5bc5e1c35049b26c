#include "coordinator/text/parsing/bare_calls.h"

#include <algorithm>

#include "common/base/check.h"
#include "coordinator/text/parsing/trimmer.h"

namespace numoe::text {
namespace {

constexpr std::string_view kBareFunction = "<function=";
constexpr std::string_view kBehindBareHead[] = {"<parameter=", "</function>"};
constexpr size_t kHeadSpaceBytesMax = 64;

enum class Head : uint8_t { kNone, kUndecided, kComplete };

Head Matches(std::string_view text, std::string_view tag) {
  const size_t shared = std::min(text.size(), tag.size());
  if (text.substr(0, shared) != tag.substr(0, shared)) return Head::kNone;
  return text.size() >= tag.size() ? Head::kComplete : Head::kUndecided;
}

// White space and what may stand behind a name in its brackets.
Head MatchBehindName(std::string_view text) {
  const size_t space = std::min(text.find_first_not_of(kWhiteSpace), text.size());
  if (space > kHeadSpaceBytesMax) return Head::kNone;
  Head best = Head::kNone;
  for (const std::string_view tag : kBehindBareHead) best = std::max(best, Matches(text.substr(space), tag));
  return best;
}

// `tag` begins with '<'.
Head MatchHead(std::string_view tag, const std::vector<DeclaredTool>& tools) {
  NUMOE_DCHECK(!tag.empty() && tag.front() == '<');
  if (const Head function = Matches(tag, kBareFunction); function != Head::kComplete) return function;
  tag.remove_prefix(kBareFunction.size());
  Head best = Head::kNone;
  for (const DeclaredTool& tool : tools) {
    const Head name = Matches(tag, tool.name);
    if (name != Head::kComplete) {
      best = std::max(best, name);
      continue;
    }
    const std::string_view behind = tag.substr(tool.name.size());
    const Head close = Matches(behind, ">");
    best = std::max(best, close == Head::kComplete ? MatchBehindName(behind.substr(1)) : close);
  }
  return best;
}

}  // namespace

BareCall FindBareCall(std::string_view pending, const std::vector<DeclaredTool>& tools) {
  for (size_t at = pending.find('<'); at != std::string_view::npos; at = pending.find('<', at + 1)) {
    const Head head = MatchHead(pending.substr(at), tools);
    if (head != Head::kNone) return {.text_bytes = at, .found = head == Head::kComplete};
  }
  return {.text_bytes = pending.size(), .found = false};
}

}  // namespace numoe::text
