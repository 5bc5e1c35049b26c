// Command-line flags for all programs: from the command line, a config file and the environment, with one way
// to fail.
//
// Every flag --some-name can also be given as some-name = value in the TOML file named by --config, and as
// the environment variable NUMOE_SOME_NAME; the command line wins, then the environment, then the file. A
// wrong flag ends the program with one line on stderr and exit code 2. Used by main functions only.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace numoe {

class Flags {
 public:
  Flags(const std::string& program, const std::string& description) : app_(description, program) {
    app_.set_config("--config", "", "TOML file with the same names as these flags");
    app_.set_help_flag("-h,--help", "Show this and exit");
    app_.get_formatter()->column_width(44);
  }

  template <typename T>
  CLI::Option* Add(const std::string& name, T& value, const std::string& help) {
    return Named(name, app_.add_option("--" + name, value, help)->capture_default_str());
  }
  /// From the command line alone: the variable of this name is another program's.
  template <typename T>
  CLI::Option* AddLocal(const std::string& name, T& value, const std::string& help) {
    return app_.add_option("--" + name, value, help)->capture_default_str();
  }
  /// Words of the command line that belong to no flag.
  CLI::Option* AddPositional(const std::string& name, std::vector<std::string>& words,
                             const std::string& help) {
    return app_.add_option(name, words, help);
  }
  CLI::Option* AddSwitch(const std::string& name, bool& value, const std::string& help) {
    return Named(name, app_.add_flag("--" + name, value, help));
  }

  /// Exit code to leave with at once (0 after --help, 2 after an error), or -1 to go on.
  int Parse(int argc, char** argv) {
    try {
      app_.parse(WithEnvironment(argc, argv));
      return -1;
    } catch (const CLI::Success& success) {  // --help
      return app_.exit(success);
    } catch (const CLI::Error& error) {
      std::string what = error.what();
      for (char& c : what) c = c == '\n' ? ' ' : c;
      std::fprintf(stderr, "%s: %s; see --help\n", app_.get_name().c_str(), what.c_str());
      return 2;
    }
  }

 private:
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
