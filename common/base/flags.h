// Command-line flags of every program, with one way to fail.
//
// Every flag --some-name can also be given as some-name = value in the TOML file named by --config, and as
// the environment variable NUMOE_SOME_NAME; the command line wins, then the environment, then the file. Tools
// that measure or convert something take their flags from the command line alone, and may have commands. A
// wrong flag, or a name in the file that is not a flag, ends the program with exit code 2 and one line on
// stderr that names the error; --help and --version print their text and end the program with exit code 0.
// unused_flags.h is for valid flags that have no effect in combination with the others. The parser
// is CLI11: its headers take seconds to compile, so flags.cc alone includes them. A main function owns the
// Flags, on its one thread, and the values that they fill in.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace numoe {

/// The variable that a flag fills in. What it holds before Parse is the flag's default.
using FlagValue = std::variant<std::string*, std::filesystem::path*, int*, int64_t*, uint64_t*, double*,
                               std::vector<std::string>*, std::vector<int>*, std::vector<double>*>;

/// A handle on one flag, valid as long as the program's Flags. Every function but Given changes the flag and
/// returns the handle again.
class Flag {
 public:
  explicit Flag(CLI::Option* option) : option_(option) {}

  Flag Required() const;
  /// The flag fills in a list, and a comma ends one value of it and begins the next.
  Flag CommaSeparated() const;
  /// The value is from `low` to `high`, both included.
  Flag Range(int low, int high) const { return Range(int64_t{low}, int64_t{high}); }
  Flag Range(int64_t low, int64_t high) const;
  Flag Range(double low, double high) const;
  Flag Positive() const;
  Flag NonNegative() const;
  Flag OneOf(const std::vector<std::string>& words) const;
  /// `wrong` returns what is wrong with a value, or "" for a good one. --help shows `kind` as the name of the
  /// good values.
  Flag Check(std::function<std::string(const std::string&)> wrong, const std::string& kind) const;
  /// Reads this environment variable, in place of NUMOE_SOME_NAME, where the command line does not have the
  /// flag. "" reads none.
  Flag Variable(const std::string& name) const;
  /// --help does not show the default.
  Flag HideDefault() const;

  /// Whether the flag was given, on the command line or elsewhere. REQUIRES: Parse has returned.
  bool Given() const;

 private:
  CLI::Option* option_;
};

/// kEverywhere: the command line, the environment and the file. kCommandLine: the command line alone.
enum class FlagSources { kEverywhere, kCommandLine };

/// The flags of a program, or of one of its commands.
class Flags {
 public:
  Flags(const std::string& program, const std::string& description,
        FlagSources sources = FlagSources::kEverywhere);
  Flags(const Flags&) = delete;
  Flags& operator=(const Flags&) = delete;
  ~Flags();

  template <typename T>
  Flag Add(const std::string& name, T& value, const std::string& help) {
    return AddValue(name, &value, help);
  }
  /// A flag without a value, which sets `value`.
  Flag AddSwitch(const std::string& name, bool& value, const std::string& help);
  /// Words of the command line that belong to no flag.
  template <typename T>
  Flag AddPositional(const std::string& name, T& value, const std::string& help) {
    return AddPositionalValue(name, &value, help);
  }

  /// Accepts the names that the flag `own` has in other programs. On the command line they mean that flag, as
  /// does its name with underscores, and --help lists them. A name of one letter follows a single dash, as in
  /// "-t 4". The environment and the file know only the program's own names. REQUIRES: these are the
  /// program's flags, and it has `own`.
  void Alias(const std::string& own, const std::vector<std::string>& others);
  /// Records the error message for flags of other programs that this program does not have. `advice` says
  /// what to use instead, as a clause without a full stop. REQUIRES: these are the program's flags.
  void Instead(const std::vector<std::string>& names, const std::string& advice);

  /// Adds a command and returns its flags, which this object owns. The command line of a program with
  /// commands must name one of them.
  Flags& Command(const std::string& name, const std::string& description);
  /// Whether the command line names this command. REQUIRES: the program's Parse has returned.
  bool Given() const;
  /// Whether a flag was given, on the command line or elsewhere. REQUIRES: there is a flag of this name, and
  /// the program's Parse has returned.
  bool Given(std::string_view flag) const;
  /// Whether the command line has a flag under this name, which may be an alias; a flag that the environment
  /// or the file sets is not typed. REQUIRES: as Given.
  bool Typed(std::string_view name) const;
  /// Variables NUMOE_... of the environment that differ by one letter from one that this program reads, as in
  /// "NUMOE_MODLE, which is not a variable of this program (NUMOE_MODEL is)". REQUIRES: as typed.
  const std::vector<std::string>& misspelled_variables() const { return misspelled_variables_; }
  /// The program's own names of all flags on the command line, without dashes. REQUIRES: these are the
  /// program's flags, and Parse has returned.
  const std::set<std::string, std::less<>>& typed() const { return typed_; }

  /// Returns the exit code to leave with at once (0 after --help and --version, 2 after an error), or -1 to
  /// go on. REQUIRES: these are the program's flags, not a command's.
  int Parse(int argc, char** argv);

 private:
  Flags(CLI::App* command, FlagSources sources);
  Flag AddValue(const std::string& name, FlagValue value, const std::string& help);
  Flag AddPositionalValue(const std::string& name, FlagValue value, const std::string& help);
  // Whether this is the name of a flag or of an alias.
  bool Knows(const std::string& flag) const;
  std::vector<std::string> ReadCommandLine(int argc, char** argv, std::string& without_value);
  std::string OwnName(const std::string& word);
  void AddEnvironment(std::vector<std::string>& arguments, std::string& without_value) const;
  void FindMisspelledVariables();

  const FlagSources sources_;
  const std::unique_ptr<CLI::App> program_;  // null for a command
  CLI::App* const app_;                      // the program, or a command that the program's app owns
  std::vector<std::unique_ptr<Flags>> commands_;
  std::map<std::string, std::string> aliases_;  // other programs' names to ours, all without dashes
  std::map<std::string, std::string> instead_;  // names that the program lacks to what is used instead
  // What the program's command line has, after Parse: own names, and the aliases that stood for some of them.
  std::set<std::string, std::less<>> typed_, typed_aliases_;
  std::vector<std::string> misspelled_variables_;
};

}  // namespace numoe
