// What is wrong with a command line, in one line: what was found, what was expected, what to do.
//
// The parser (CLI11) reports missing flags before words that it could not place, and it prints what it found
// without what it expected. A word that it could not place is the likelier mistake, so this function names it
// first, with the program's most similar name. It is a pure function of values that flags.cc takes from the
// parser, so any thread may call it; it returns a message of an unknown form unchanged.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace numoe {

/// What the parser holds after it failed.
struct WrongCommandLine {
  struct KnownFlag {
    std::string name;      // "--port"
    std::string expected;  // "a whole number"
  };
  std::string message;                // the parser's own
  std::vector<std::string> unplaced;  // words that belong to no flag and name no command
  std::map<std::string, std::string>
      instead;                        // flags of other programs, without dashes, to what is used instead
  std::vector<std::string> chain;     // the program's name, then those of the commands that were given
  std::vector<KnownFlag> flags;       // of the last one in the chain
  std::vector<std::string> commands;  // of the last one in the chain
};

/// Returns the line without the program's name in front and without a line break. REQUIRES: `chain` is not
/// empty.
std::string ExplainCommandLine(const WrongCommandLine& wrong);

/// Whether one letter is missing, added, replaced or swapped with the next one; false for equal names.
bool DiffersByOneLetter(std::string_view found, std::string_view name);

}  // namespace numoe
