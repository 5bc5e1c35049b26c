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

constexpr size_t kWideColumn = 44;  // Most flags fit into it with the names of their variables.

std::string EnvironmentName(const std::string& flag) {
  std::string name = "NUMOE_";
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
    app_->parse(ReadCommandLine(argc, argv));
    return -1;
  } catch (const CLI::Success& success) {  // --help and --version
    return app_->exit(success);
  } catch (const CLI::Error& error) {
    std::map<std::string, std::string> advice = instead_;
    for (const auto& [other, own] : aliases_)
      advice[other] = fmt::format("its name in this program is {}", own);
    std::fprintf(stderr, "%s: %s\n", app_->get_name().c_str(),
                 ExplainCommandLine(WhatIsWrong(*app_, advice, error)).c_str());
    return 2;
  }
}

// Returns the command line and the environment as the parser wants them: the last argument first.
std::vector<std::string> Flags::ReadCommandLine(int argc, char** argv) {
  typed_.clear();
  typed_aliases_.clear();
  std::vector<std::string> arguments(argv + 1, argv + argc);
  for (std::string& word : arguments) word = OwnName(word);
  AddEnvironment(arguments);
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

// CLI11 lets the file win over the environment, so this turns variables into arguments, unless the command
// line has the flag.
void Flags::AddEnvironment(std::vector<std::string>& arguments) const {
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    if (option->get_envname().empty()) continue;
    const char* const value = std::getenv(option->get_envname().c_str());
    const std::string flag = option->get_name();
    NUMOE_CHECK(flag.rfind("--", 0) == 0) << flag;
    if (value != nullptr && typed_.count(flag.substr(2)) == 0) arguments.push_back(flag + "=" + value);
  }
}

}  // namespace numoe
