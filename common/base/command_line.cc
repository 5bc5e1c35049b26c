#include "common/base/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "common/base/check.h"

namespace numoe {
namespace {

// The Levenshtein distance.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Returns "; did you mean NAME?" where one of the names is so near that it may be meant, else "".
std::string Suggestion(std::string_view found, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(2, found.size() / 3) + 1;
  for (const std::string& name : names) {
    NUMOE_DCHECK(!name.empty());
    // The beginning of a name is as good as the name.
    const size_t distance = found.size() > 3 && name.rfind(found, 0) == 0 ? 1 : Distance(found, name);
    if (distance >= least) continue;
    least = distance;
    best = &name;
  }
  return best == nullptr ? "" : fmt::format("; did you mean {}?", *best);
}

// Returns ": ADVICE" for a name of another program that there is advice on, otherwise "; did you mean NAME?"
// or "".
std::string AdviceOn(std::string_view found, const WrongCommandLine& wrong) {
  std::string bare(found.substr(std::min(found.find_first_not_of('-'), found.size())));
  std::replace(bare.begin(), bare.end(), '_', '-');
  if (const auto advice = wrong.instead.find(bare); advice != wrong.instead.end())
    return fmt::format(": {}", advice->second);
  std::vector<std::string> names;
  for (const WrongCommandLine::KnownFlag& flag : wrong.flags) names.push_back(flag.name);
  return Suggestion(found, names);
}

// REQUIRES: `wrong.unplaced` is not empty.
std::string UnknownWord(const WrongCommandLine& wrong) {
  const std::vector<std::string>& words = wrong.unplaced;
  NUMOE_CHECK(!words.empty());
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag != words.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    return fmt::format("unknown flag {}{}", name, AdviceOn(name, wrong));
  }
  if (!wrong.commands.empty()) {
    const std::string suggestion = Suggestion(words[0], wrong.commands);
    return fmt::format("unknown command \"{}\"{} expected one of {}", words[0],
                       suggestion.empty() ? ":" : suggestion, fmt::join(wrong.commands, ", "));
  }
  return fmt::format("\"{}\" belongs to no flag: expected --NAME VALUE", words[0]);
}

// Returns "0 to 65535" for two bounds that the parser printed. An upper bound that limits nothing is left
// out, and the least number above 0 is called that.
std::string Bounds(const std::string& low, const std::string& high) {
  constexpr double kUnlimited = 1e18, kLeastAboveZero = 1e-300;
  const double least = std::strtod(low.c_str(), nullptr), most = std::strtod(high.c_str(), nullptr);
  if (most < kUnlimited) return fmt::format("{} to {}", least, most);
  return least > 0 && least < kLeastAboveZero ? "more than 0" : fmt::format("{} or more", least);
}

// Returns the rest of `text` after `prefix`; nullopt if `text` does not begin with it.
std::optional<std::string_view> TextAfter(std::string_view prefix, std::string_view text) {
  if (!text.starts_with(prefix)) return std::nullopt;
  return text.substr(prefix.size());
}
// Returns `text` without `suffix`; nullopt if `text` does not end with it.
std::optional<std::string_view> Before(std::string_view suffix, std::string_view text) {
  if (!text.ends_with(suffix)) return std::nullopt;
  return text.substr(0, text.size() - suffix.size());
}

// The parts of a text before and after a word. The functions below return nullopt if the text lacks the word.
struct Halves {
  std::string left, right;
};
std::optional<Halves> Cut(std::string_view text, size_t at, std::string_view word) {
  if (at == std::string_view::npos) return std::nullopt;
  NUMOE_DCHECK(text.substr(at, word.size()) == word);
  return Halves{.left = std::string(text.substr(0, at)), .right = std::string(text.substr(at + word.size()))};
}
std::optional<Halves> CutAtFirst(std::string_view word, std::string_view text) {
  return Cut(text, text.find(word), word);
}
std::optional<Halves> CutAtLast(std::string_view word, std::string_view text) {
  return Cut(text, text.rfind(word), word);
}

// Explains "Could not convert: FLAG = VALUE".
std::optional<std::string> NotConverted(const WrongCommandLine& wrong) {
  const auto rest = TextAfter("Could not convert: ", wrong.message);
  const auto found = rest ? CutAtFirst(" = ", *rest) : std::nullopt;
  if (!found) return std::nullopt;
  for (const WrongCommandLine::KnownFlag& flag : wrong.flags) {
    if (flag.name == found->left)
      return fmt::format("{}={}: expected {}", flag.name, found->right, flag.expected);
  }
  return std::nullopt;
}

// Explains "Value VALUE not in range LOW to HIGH".
std::optional<std::string> OutOfRange(const std::string& flag, std::string_view problem) {
  const auto rest = TextAfter("Value ", problem);
  const auto found = rest ? CutAtLast(" not in range ", *rest) : std::nullopt;
  const auto bounds = found ? CutAtFirst(" to ", found->right) : std::nullopt;
  if (!bounds) return std::nullopt;
  return fmt::format("{}={}: expected {}", flag, found->left, Bounds(bounds->left, bounds->right));
}

// Explains "VALUE not in {ONE,ANOTHER}".
std::optional<std::string> NoneOf(const std::string& flag, std::string_view problem) {
  const auto rest = Before("}", problem);
  const auto found = rest ? CutAtLast(" not in {", *rest) : std::nullopt;
  if (!found) return std::nullopt;
  std::string words;
  for (const char c : found->right) words += c == ',' ? ", " : std::string(1, c);
  return fmt::format("{}={}: expected one of {}", flag, found->left, words);
}

// Explains "1 required TYPE missing" and "At Most 1 required but received COUNT".
std::optional<std::string> WrongCount(const std::string& flag, std::string_view problem) {
  if (problem.starts_with("1 required ") && problem.ends_with(" missing"))
    return fmt::format("{} is given without a value", flag);
  const auto count = TextAfter("At Most 1 required but received ", problem);
  if (!count) return std::nullopt;
  return fmt::format("{} is given {} times: expected once", flag, *count);
}

// Explains the parser's messages that do not say both what was found and what was expected. Most of them
// begin with the flag's name and a colon.
std::optional<std::string> WrongValue(const WrongCommandLine& wrong) {
  if (auto line = NotConverted(wrong)) return line;
  const auto named = CutAtFirst(": ", wrong.message);
  if (named && named->left.find(' ') == std::string::npos) {
    if (auto line = NoneOf(named->left, named->right)) return line;
    if (auto line = OutOfRange(named->left, named->right)) return line;
    if (auto line = WrongCount(named->left, named->right)) return line;
  }
  if (const auto file = Before(" was not readable (missing?)", wrong.message))
    return fmt::format("--config={}: cannot be read", *file);
  return std::nullopt;
}

std::string Reason(const WrongCommandLine& wrong) {
  if (auto line = WrongValue(wrong)) return *line;
  if (const auto name =
          TextAfter("INI was not able to parse ", wrong.message)) {  // NAME follows, from the file
    return fmt::format("--config: the file sets {}, which is not a flag{}", *name,
                       AdviceOn(fmt::format("--{}", *name), wrong));
  }
  if (const auto name = Before(": This option is not allowed in a configuration file", wrong.message))
    return fmt::format("--config: the file sets {}, which only the command line may", *name);
  if (wrong.message.starts_with("A subcommand"))
    return fmt::format("a command is missing: expected one of {}", fmt::join(wrong.commands, ", "));
  return wrong.message;
}

}  // namespace

std::string ExplainCommandLine(const WrongCommandLine& wrong) {
  NUMOE_CHECK(!wrong.chain.empty());
  std::string line = wrong.unplaced.empty() ? Reason(wrong) : UnknownWord(wrong);
  std::replace(line.begin(), line.end(), '\n', ' ');
  return fmt::format("{}; see {} --help", line, fmt::join(wrong.chain, " "));
}

bool DiffersByOneLetter(std::string_view found, std::string_view name) {
  if (Distance(found, name) == 1) return true;
  if (found.size() != name.size()) return false;
  const auto [a, b] = std::mismatch(found.begin(), found.end(), name.begin());
  if (a == found.end() || a + 1 == found.end()) return false;
  return a[0] == b[1] && a[1] == b[0] && std::equal(a + 2, found.end(), b + 2);
}

}  // namespace numoe
