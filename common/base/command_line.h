// What is wrong with a command line, in one line: what was found, what was expected, what to do.
//
// CLI11 looks for missing flags before it looks at what it could not place, and says what it found without
// what it wanted. A word that it could not place is the likelier cause: it is named first, with the nearest
// name that the program has. A pure function of what the parser holds after it failed.
#pragma once

#include <string>

#include "CLI/CLI.hpp"

namespace numoe {

/// REQUIRES: `app` has just failed to parse with `error`, which is no CLI::Success. Without the program's
/// name and without a line break.
std::string ExplainCommandLine(const CLI::App& app, const CLI::Error& error);

}  // namespace numoe
