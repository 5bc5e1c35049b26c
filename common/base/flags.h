// Command-line flags for all programs: from the command line, a config file and the environment, with one way
// to fail.
//
// Every flag --some-name can also be given as some-name = value in the TOML file named by --config, and as
// the environment variable NUMOE_SOME_NAME; the command line wins, then the environment, then the file. A
// wrong flag ends the program with one line on stderr and exit code 2. Used by main functions only.
#pragma once

#include <string>

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
    return app_.add_option("--" + name, value, help)->envname(EnvironmentName(name))->capture_default_str();
  }
  CLI::Option* AddSwitch(const std::string& name, bool& value, const std::string& help) {
    return app_.add_flag("--" + name, value, help)->envname(EnvironmentName(name));
  }

  /// Exit code to leave with at once (0 after --help, 2 after an error), or -1 to go on.
  int Parse(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
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

  CLI::App app_;
};

}  // namespace numoe
