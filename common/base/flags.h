// Command-line flags for all programs: from the command line, a config file and the environment, with one way
// to fail.
//
// Every flag --some-name can also be given as some-name = value in the TOML file named by --config, and as
// the environment variable NUMOE_SOME_NAME; the command line wins, then the environment, then the file. A
// wrong flag, or a name in the file that is no flag, ends the program with one line on stderr that says so,
// and exit code 2. Programs with commands use CLI::App and ParseCommandLine. Used by main functions only.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "common/base/command_line.h"

namespace numoe {

/// Exit code to leave with at once (0 after --help, 2 after an error), or -1 to go on. The last argument
/// comes first, as CLI11 wants it.
inline int ParseCommandLine(CLI::App& app, std::vector<std::string> arguments) {
  try {
    app.parse(std::move(arguments));
    return -1;
  } catch (const CLI::Success& success) {  // --help
    return app.exit(success);
  } catch (const CLI::Error& error) {
    std::fprintf(stderr, "%s: %s\n", app.get_name().c_str(), ExplainCommandLine(app, error).c_str());
    return 2;
  }
}
inline int ParseCommandLine(CLI::App& app, int argc, char** argv) {
  std::vector<std::string> arguments(argv + 1, argv + argc);
  std::reverse(arguments.begin(), arguments.end());
  return ParseCommandLine(app, std::move(arguments));
}

class Flags {
 public:
  Flags(const std::string& program, const std::string& description) : app_(description, program) {
    app_.set_config("--config", "", "TOML file with the same names as these flags");
    app_.allow_config_extras(CLI::config_extras_mode::error);
    app_.set_help_flag("-h,--help", "Show this and exit");
    app_.get_formatter()->column_width(44);
  }

  template <typename T>
  CLI::Option* Add(const std::string& name, T& value, const std::string& help) {
    return Named(name, Option(name, value, help));
  }
  /// From the command line alone: the variable of this name is another program's.
  template <typename T>
  CLI::Option* AddLocal(const std::string& name, T& value, const std::string& help) {
    return Option(name, value, help);
  }
  /// Words of the command line that belong to no flag.
  CLI::Option* AddPositional(const std::string& name, std::vector<std::string>& words,
                             const std::string& help) {
    return app_.add_option(name, words, help);
  }
  CLI::Option* AddSwitch(const std::string& name, bool& value, const std::string& help) {
    return Named(name, app_.add_flag("--" + name, value, help));
  }

  /// As ParseCommandLine.
  int Parse(int argc, char** argv) { return ParseCommandLine(app_, WithEnvironment(argc, argv)); }

 private:
  template <typename T>
  CLI::Option* Option(const std::string& name, T& value, const std::string& help) {
    // A list takes the word behind its name, and not what follows.
    return app_.add_option("--" + name, value, help)->capture_default_str()->allow_extra_args(false);
  }

  static std::string EnvironmentName(const std::string& flag) {
    std::string name = "NUMOE_";
    for (const char c : flag)
      name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    return name;
  }

  CLI::Option* Named(const std::string& name, CLI::Option* option) {
    names_.push_back(name);
    return option->envname(EnvironmentName(name));  // in --help
  }

  // CLI11 lets the file win over the environment. So variables become arguments, unless the command line
  // names the flag. The last argument comes first, as CLI11 wants it.
  std::vector<std::string> WithEnvironment(int argc, char** argv) const {
    std::vector<std::string> arguments(argv + 1, argv + argc);
    const size_t given = arguments.size();
    for (const std::string& name : names_) {
      const char* value = std::getenv(EnvironmentName(name).c_str());
      const std::string flag = "--" + name;
      const bool on_command_line =
          std::any_of(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(given),
                      [&](const std::string& a) { return a == flag || a.rfind(flag + "=", 0) == 0; });
      if (value != nullptr && !on_command_line) arguments.push_back(flag + "=" + value);
    }
    std::reverse(arguments.begin(), arguments.end());
    return arguments;
  }

  CLI::App app_;
  std::vector<std::string> names_;
};

}  // namespace numoe
