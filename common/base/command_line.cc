#include "common/base/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <regex>
#include <string_view>
#include <vector>

namespace numoe {
namespace {

constexpr std::string_view kNotConfigured = "INI was not able to parse ";  // CLI::ConfigError

// The commands that were given, from the program down.
std::vector<const CLI::App*> Chain(const CLI::App& app) {
  std::vector<const CLI::App*> chain = {&app};
  for (auto given = app.get_subcommands(); !given.empty(); given = given[0]->get_subcommands())
    chain.push_back(given[0]);
  return chain;
}

// Levenshtein's.
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

// "; did you mean NAME?" where one of them is so near that it may be meant, else nothing.
std::string Suggestion(std::string_view found, const std::vector<std::string>& names) {
  const std::string* best = nullptr;
  size_t least = std::max<size_t>(2, found.size() / 3) + 1;
  for (const std::string& name : names) {
    // The beginning of a name is as good as the name.
    const size_t distance = found.size() > 3 && name.rfind(found, 0) == 0 ? 1 : Distance(found, name);
    if (distance >= least) continue;
    least = distance;
    best = &name;
  }
  return best == nullptr ? "" : fmt::format("; did you mean {}?", *best);
}

std::vector<std::string> FlagNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::string UnknownWord(const CLI::App& app, const std::vector<std::string>& words) {
  const auto flag = std::find_if(words.begin(), words.end(),
                                 [](const std::string& word) { return word.size() > 1 && word[0] == '-'; });
  if (flag != words.end()) {
    const std::string name = flag->substr(0, flag->find('='));
    return fmt::format("unknown flag {}{}", name, Suggestion(name, FlagNames(app)));
  }
  const std::vector<std::string> commands = CommandNames(app);
  if (!commands.empty()) {
    return fmt::format("unknown command \"{}\"{} expected one of {}", words[0],
                       Suggestion(words[0], commands).empty() ? ":" : Suggestion(words[0], commands),
                       fmt::format("{}", fmt::join(commands, ", ")));
  }
  return fmt::format("\"{}\" belongs to no flag: expected --NAME VALUE", words[0]);
}

const char* Expected(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "true or false";
  const std::string type = option.get_type_name();
  if (type.rfind("INT", 0) == 0) return "a whole number";
  if (type.rfind("UINT", 0) == 0) return "a whole number, 0 or more";
  if (type.rfind("FLOAT", 0) == 0) return "a number";
  return "another value";
}

// "0 to 65535" of the bounds that CLI11 prints; those that are no limit are left out.
std::string Bounds(const std::string& low, const std::string& high) {
  constexpr double kUnlimited = 1e18;
  const double least = std::strtod(low.c_str(), nullptr), most = std::strtod(high.c_str(), nullptr);
  return most < kUnlimited ? fmt::format("{} to {}", least, most) : fmt::format("{} or more", least);
}

// What was found and expected, from the words of CLI11's that do not say both.
std::optional<std::string> WrongValue(const CLI::App& app, const std::string& what) {
  static const std::regex converted("Could not convert: (\\S+) = (.*)");
  static const std::regex range("(\\S+): Value (.*) not in range (\\S+) to (\\S+)");
  static const std::regex member("(\\S+): (.*) not in \\{(.*)\\}");
  static const std::regex missing("(\\S+): 1 required .* missing");
  static const std::regex repeated("(\\S+): At Most 1 required but received (\\d+)");
  static const std::regex file("(.*) was not readable \\(missing\\?\\)");
  std::smatch m;
  if (std::regex_match(what, m, converted)) {
    const CLI::Option* option = app.get_option_no_throw(m[1]);
    if (option != nullptr)
      return fmt::format("{}={}: expected {}", m[1].str(), m[2].str(), Expected(*option));
  }
  if (std::regex_match(what, m, range))
    return fmt::format("{}={}: expected {}", m[1].str(), m[2].str(), Bounds(m[3], m[4]));
  if (std::regex_match(what, m, member)) {
    const std::string list = std::regex_replace(m[3].str(), std::regex(","), ", ");
    return fmt::format("{}={}: expected one of {}", m[1].str(), m[2].str(), list);
  }
  if (std::regex_match(what, m, missing)) return fmt::format("{} is given without a value", m[1].str());
  if (std::regex_match(what, m, repeated))
    return fmt::format("{} is given {} times: expected once", m[1].str(), m[2].str());
  if (std::regex_match(what, m, file)) return fmt::format("--config={}: cannot be read", m[1].str());
  return std::nullopt;
}

std::string Reason(const CLI::App& app, const std::string& what) {
  if (auto wrong = WrongValue(app, what)) return *wrong;
  if (what.rfind(kNotConfigured, 0) == 0) {
    const std::string name = "--" + what.substr(kNotConfigured.size());
    return fmt::format("--config: the file sets {}, which is no flag{}", name.substr(2),
                       Suggestion(name, FlagNames(app)));
  }
  if (what.rfind("A subcommand", 0) == 0)
    return fmt::format("a command is missing: expected one of {}", fmt::join(CommandNames(app), ", "));
  return what;
}

}  // namespace

std::string ExplainCommandLine(const CLI::App& app, const CLI::Error& error) {
  const std::vector<const CLI::App*> chain = Chain(app);
  const CLI::App& last = *chain.back();
  const std::vector<std::string> words = app.remaining(/*recurse=*/true);
  std::string line = words.empty() ? Reason(last, error.what()) : UnknownWord(last, words);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line += "; see";
  for (const CLI::App* command : chain) line += " " + command->get_name();
  return line + " --help";
}

}  // namespace numoe
