// What is wrong with a command line, in one line: what was found, what was expected, what to do.
//
// The parser looks for missing flags before it looks at what it could not place, and says what it found
// without what it wanted. A word that it could not place is the likelier cause: it is named first, with the
// nearest name that the program has. A pure function on values that flags.cc takes from the parser, so that
// any thread may call it; a message that it does not know is passed on as it is.
#pragma once

#include <string>
#include <vector>

namespace numoe {

/// What the parser holds after it failed.
struct WrongCommandLine {
  struct KnownFlag {
    std::string name;      // "--port"
    std::string expected;  // "a whole number"
  };
  std::string message;                // the parser's own
  std::vector<std::string> unplaced;  // words that belong to nothing
  std::vector<std::string> chain;     // the program's name, then those of the commands that were given
  std::vector<KnownFlag> flags;       // of the last one in the chain
  std::vector<std::string> commands;  // of the last one in the chain
};

/// Without the program's name in front and without a line break. REQUIRES: `chain` is not empty.
std::string ExplainCommandLine(const WrongCommandLine& wrong);

}  // namespace numoe
