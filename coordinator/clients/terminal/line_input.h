// LineInput: lines that a person types, with editing and history (libedit) if there is a terminal for it.
//
// If stdin or stdout is not a terminal, or with TERM=dumb, lines are read without editing and the prompt goes
// to stderr. A line that begins with """ continues to the next line that ends with """. Ctrl-C drops the
// typed line; on an empty line it ends the input, as Ctrl-D does. The history lasts as long as this object.
// For use by one thread, with one object in the program.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace numoe::clients {

class LineInput {
 public:
  static std::unique_ptr<LineInput> Create();
  virtual ~LineInput() = default;

  /// Returns a line without its end; nullopt if the input has ended.
  std::optional<std::string> Read(const std::string& prompt);

 protected:
  virtual std::optional<std::string> ReadLine(const std::string& prompt) = 0;
};

}  // namespace numoe::clients
