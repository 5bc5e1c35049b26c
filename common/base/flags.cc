#include "common/base/flags.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <utility>

#include "CLI/CLI.hpp"
#include "common/base/check.h"
#include "common/base/command_line.h"
#include "common/base/version.h"

namespace numoe {
namespace {

constexpr std::string_view kVariablePrefix = "NUMOE_";

constexpr size_t kWideColumn = 44;  // Most flags fit into it with the names of their variables.

std::string EnvironmentName(const std::string& flag) {
  std::string name(kVariablePrefix);
  for (const char c : flag)
    name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

// Says what a value should have been that cannot be converted to the flag's type.
const char* Expected(const CLI::Option& option) {
  if (option.get_expected_max() == 0) return "true or false";
  const std::string type = option.get_type_name();
  if (type.rfind("INT", 0) == 0) return "a whole number";
  if (type.rfind("UINT", 0) == 0) return "a whole number, 0 or more";
  if (type.rfind("FLOAT", 0) == 0) return "a number";
  return "another value";
}

// Returns the word of a command line that names the flag: "-t", or "--threads".
std::string Dashed(const std::string& name) { return (name.size() == 1 ? "-" : "--") + name; }

WrongCommandLine WhatIsWrong(const CLI::App& program, const std::map<std::string, std::string>& instead,
                             const CLI::Error& error) {
  WrongCommandLine wrong{
      .message = error.what(), .unplaced = program.remaining(/*recurse=*/true), .instead = instead};
  const CLI::App* last = &program;
  wrong.chain.push_back(last->get_name());
  for (auto given = last->get_subcommands(); !given.empty(); given = last->get_subcommands()) {
    last = given[0];
    wrong.chain.push_back(last->get_name());
  }
  for (const CLI::Option* option : last->get_options()) {
    for (const std::string& name : option->get_lnames())
      wrong.flags.push_back({.name = "--" + name, .expected = Expected(*option)});
  }
  for (const CLI::App* command : last->get_subcommands([](const CLI::App*) { return true; }))
    wrong.commands.push_back(command->get_name());
  return wrong;
}

// Returns "; the variable NUMOE_PORT sets it" if that is where the flag at the line's beginning has its value
// from.
std::string SourceOf(std::string_view line, const CLI::App& app,
                     const std::set<std::string, std::less<>>& typed) {
  if (line.substr(0, 2) != "--") return "";
  const std::string name(line.substr(2, line.find_first_of("= ") - 2));
  const CLI::Option* const option = app.get_option_no_throw("--" + name);
  if (option == nullptr || typed.count(name) > 0 || option->get_envname().empty()) return "";
  if (std::getenv(option->get_envname().c_str()) == nullptr) return "";
  return fmt::format("; the variable {} sets it", option->get_envname());
}

// Whether the value of a list has nothing but separators. The parser would take the next word instead.
bool IsEmptyList(const CLI::Option& option, std::string_view value) {
  const char separator = option.get_delimiter();
  return separator != '\0' && !value.empty() && value.find_first_not_of(separator) == std::string_view::npos;
}

// Whether the word is --NAME or --NAME=VALUE for a flag of the program or of its command.
bool IsFlag(const std::string& word, const CLI::App& app) {
  std::string name = word.substr(0, word.find('='));
  if (name.rfind("--", 0) != 0) return false;
  if (app.get_option_no_throw(name) != nullptr) return true;
  std::replace(name.begin() + 2, name.end(), '_', '-');
  return app.get_option_no_throw(name) != nullptr;
}

}  // namespace

Flag Flag::Required() const {
  option_->required();
  return *this;
}

Flag Flag::CommaSeparated() const {
  option_->delimiter(',');
  return *this;
}

Flag Flag::Range(int64_t low, int64_t high) const {
  NUMOE_CHECK_LE(low, high);
  option_->check(CLI::Range(low, high));
  return *this;
}

Flag Flag::Range(double low, double high) const {
  NUMOE_CHECK_LE(low, high);
  option_->check(CLI::Range(low, high));
  return *this;
}

// In the parser's own words the least value would be "0.000000".
Flag Flag::Positive() const {
  const auto wrong = [](const std::string& value) -> std::string {
    if (CLI::PositiveNumber(value).empty()) return "";
    return fmt::format("Value {} not in range {} to {}", value, std::numeric_limits<double>::min(),
                       std::numeric_limits<double>::max());
  };
  return Check(wrong, "POSITIVE");
}

Flag Flag::NonNegative() const {
  option_->check(CLI::NonNegativeNumber);
  return *this;
}

Flag Flag::OneOf(const std::vector<std::string>& words) const {
  NUMOE_CHECK(!words.empty());
  option_->check(CLI::IsMember(words));
  return *this;
}

Flag Flag::Check(std::function<std::string(const std::string&)> wrong, const std::string& kind) const {
  option_->check(CLI::Validator(std::move(wrong), kind));
  return *this;
}

Flag Flag::Variable(const std::string& name) const {
  option_->envname(name);
  return *this;
}

Flag Flag::HideDefault() const {
  option_->default_str("");
  return *this;
}

bool Flag::Given() const { return option_->count() > 0; }

Flags::Flags(const std::string& program, const std::string& description, FlagSources sources)
    : sources_(sources), program_(std::make_unique<CLI::App>(description, program)), app_(program_.get()) {
  if (sources_ == FlagSources::kEverywhere) {
    app_->set_config("--config", "",
                     "TOML file that sets flags by their names, as in port = 8080; the command line and the "
                     "environment take precedence");
    app_->allow_config_extras(CLI::config_extras_mode::error);
    app_->set_help_flag("-h,--help", "Print this help and exit");
    app_->get_formatter()->column_width(kWideColumn);
  }
  app_->set_version_flag("--version", fmt::format("{} {}", program, Version()), "Print the version and exit");
}

Flags::Flags(CLI::App* command, FlagSources sources) : sources_(sources), app_(command) {}

Flags::~Flags() = default;

Flag Flags::AddValue(const std::string& name, FlagValue value, const std::string& help) {
  NUMOE_CHECK(!name.empty() && name[0] != '-') << name << ": the dashes are added here";
  CLI::Option* const option =
      std::visit([&](auto* v) { return app_->add_option("--" + name, *v, help); }, value);
  option->capture_default_str();
  if (sources_ == FlagSources::kEverywhere) {
    // A list takes only the word that follows its name; later words are not its values.
    option->allow_extra_args(false)->envname(EnvironmentName(name));
  }
  return Flag(option);
}

Flag Flags::AddSwitch(const std::string& name, bool& value, const std::string& help) {
  NUMOE_CHECK(!name.empty() && name[0] != '-') << name << ": the dashes are added here";
  CLI::Option* const option = app_->add_flag("--" + name, value, help);
  if (sources_ == FlagSources::kEverywhere) option->envname(EnvironmentName(name));
  return Flag(option);
}

Flag Flags::AddPositionalValue(const std::string& name, FlagValue value, const std::string& help) {
  NUMOE_CHECK(!name.empty() && name[0] != '-') << name;
  return Flag(std::visit([&](auto* v) { return app_->add_option(name, *v, help); }, value));
}

void Flags::Alias(const std::string& own, const std::vector<std::string>& others) {
  NUMOE_CHECK(program_ != nullptr && Knows(own)) << own;
  for (const std::string& other : others) {
    NUMOE_CHECK(!Knows(other)) << other << " is a flag of its own";
    const bool added = aliases_.emplace(other, own).second;
    NUMOE_CHECK(added) << other;
  }
}

void Flags::Instead(const std::vector<std::string>& names, const std::string& advice) {
  NUMOE_CHECK(program_ != nullptr && !advice.empty());
  for (const std::string& name : names) {
    NUMOE_CHECK(!Knows(name)) << name << " is a flag of this program";
    instead_[name] = advice;
  }
}

bool Flags::Knows(const std::string& flag) const {
  return aliases_.count(flag) > 0 || app_->get_option_no_throw("--" + flag) != nullptr;
}

// Returns a word of the command line with this program's name of a flag in place of another program's, or of
// one with underscores, and records the flag as typed.
std::string Flags::OwnName(const std::string& word) {
  const size_t end = std::min(word.find('='), word.size());
  const size_t dashes = word.rfind("--", 0) == 0 ? 2 : 1;
  if (word.rfind('-', 0) != 0 || end <= dashes) return word;
  std::string name = word.substr(dashes, end - dashes);
  if (!aliases_.empty()) std::replace(name.begin(), name.end(), '_', '-');
  if ((dashes == 1) != (name.size() == 1) || !Knows(name)) return word;
  if (const auto alias = aliases_.find(name); alias != aliases_.end()) {
    typed_aliases_.insert(name);
    name = alias->second;
  }
  typed_.insert(name);
  return "--" + name + word.substr(end);
}

Flags& Flags::Command(const std::string& name, const std::string& description) {
  app_->require_subcommand(1);
  CLI::App* const command = app_->add_subcommand(name, description);
  commands_.push_back(std::unique_ptr<Flags>(new Flags(command, sources_)));
  return *commands_.back();
}

bool Flags::Given() const { return app_->parsed(); }

bool Flags::Given(std::string_view flag) const {
  const CLI::Option* const option = std::as_const(*app_).get_option_no_throw("--" + std::string(flag));
  NUMOE_CHECK(option != nullptr) << flag << " is not a flag";
  return option->count() > 0;
}

bool Flags::Typed(std::string_view name) const {
  const auto alias = aliases_.find(std::string(name));
  const bool given = Given(alias == aliases_.end() ? name : alias->second);
  // A command of a tool reads nothing but the command line.
  return given && (program_ == nullptr || typed_.count(name) + typed_aliases_.count(name) > 0);
}

int Flags::Parse(int argc, char** argv) {
  NUMOE_CHECK(program_ != nullptr);
  NUMOE_CHECK_GE(argc, 1);
  for (int i = 1; i < argc; ++i) {
    // The parser would read -hf as -h and -f.
    const std::string word = argv[i], name = word.substr(0, word.find('='));
    const auto advice =
        name.size() > 2 && name[0] == '-' && name[1] != '-' ? instead_.find(name.substr(1)) : instead_.end();
    if (advice == instead_.end()) continue;
    std::fprintf(stderr, "%s: unknown flag %s: %s; see %s --help\n", app_->get_name().c_str(), name.c_str(),
                 advice->second.c_str(), app_->get_name().c_str());
    return 2;
  }
  if (!aliases_.empty()) {
    std::string footer = "Names of flags in other programs that are accepted as well:";
    for (const auto& [other, own] : aliases_) footer += fmt::format("\n  {} (--{})", Dashed(other), own);
    app_->footer(footer);
  }
  try {
    FindMisspelledVariables();
    std::string without_value;
    std::vector<std::string> arguments = ReadCommandLine(argc, argv, without_value);
    if (!without_value.empty()) {
      std::fprintf(stderr, "%s: %s\n", app_->get_name().c_str(), without_value.c_str());
      return 2;
    }
    app_->parse(std::move(arguments));
    return -1;
  } catch (const CLI::Success& success) {  // --help and --version
    return app_->exit(success);
  } catch (const CLI::Error& error) {
    std::map<std::string, std::string> advice = instead_;
    for (const auto& [other, own] : aliases_)
      advice[other] = fmt::format("its name in this program is {}", own);
    std::string line = ExplainCommandLine(WhatIsWrong(*app_, advice, error));
    line += SourceOf(line, *app_, typed_);
    for (const std::string& variable : misspelled_variables_) line += "; the environment has " + variable;
    std::fprintf(stderr, "%s: %s\n", app_->get_name().c_str(), line.c_str());
    return 2;
  }
}

// Returns the command line and the environment as the parser wants them: the last argument first. The
// environment is in front of the command line, whose words after "--" belong to no flag.
//
// The parser would take the next flag as the value of a flag without one, and a secret could end up in a log
// or in a file's name. So this finds such a flag first; then `without_value` is the line to print.
std::vector<std::string> Flags::ReadCommandLine(int argc, char** argv, std::string& without_value) {
  typed_.clear();
  typed_aliases_.clear();
  std::vector<std::string> words(argv + 1, argv + argc);
  const CLI::App* current = app_;
  const CLI::Option* open = nullptr;  // the flag whose value the next word is
  for (std::string& word : words) {
    const bool ends_flags = word == "--";
    if (open != nullptr && !ends_flags && !IsFlag(word, *current) && !IsEmptyList(*open, word)) {
      open = nullptr;
      continue;
    }
    if (open != nullptr || ends_flags) break;
    for (const std::unique_ptr<Flags>& command : commands_)
      if (current == app_ && command->app_->get_name() == word) current = command->app_;
    word = OwnName(word);
    if (!IsFlag(word, *current)) continue;
    const size_t end = std::min(word.find('='), word.size());
    const CLI::Option* const option = current->get_option_no_throw(word.substr(0, end));
    const bool has_value = end < word.size();
    const bool empty = has_value && (end + 1 == word.size() || IsEmptyList(*option, word.substr(end + 1)));
    if (empty || (!has_value && option->get_expected_max() > 0)) open = option;
    if (empty) break;
  }
  if (open != nullptr) {
    without_value =
        fmt::format("{}: found no value, expected one (is a variable of the shell unset?); see {} --help",
                    open->get_name(), app_->get_name());
  }
  std::vector<std::string> arguments;
  AddEnvironment(arguments, without_value);
  arguments.insert(arguments.end(), words.begin(), words.end());
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

// CLI11 lets the file win over the environment, so this turns variables into arguments, unless the command
// line has the flag.
void Flags::AddEnvironment(std::vector<std::string>& arguments, std::string& without_value) const {
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (option->get_envname().empty()) continue;
    const char* const value = std::getenv(option->get_envname().c_str());
    const std::string flag = option->get_name();
    NUMOE_CHECK(flag.rfind("--", 0) == 0) << flag;
    if (value == nullptr || typed_.count(flag.substr(2)) > 0) continue;
    if (*value == '\0' || IsEmptyList(*option, value)) {
      without_value = fmt::format("{}: found no value, expected one; the variable {} is empty, so unset it",
                                  flag, option->get_envname());
    }
    arguments.push_back(flag + "=" + value);
  }
}

void Flags::FindMisspelledVariables() {
  misspelled_variables_.clear();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view found = text.substr(0, text.find('='));
    if (found.substr(0, kVariablePrefix.size()) != kVariablePrefix) continue;
    std::string meant;
    bool known = false;
    for (const CLI::Option* option : std::as_const(*app_).get_options()) {
      const std::string& own = option->get_envname();
      known = known || own == found;
      if (!own.empty() && DiffersByOneLetter(found, own)) meant = own;
    }
    if (known || meant.empty()) continue;
    misspelled_variables_.push_back(
        fmt::format("{}, which is not a variable of this program ({} is)", found, meant));
  }
}

}  // namespace numoe
