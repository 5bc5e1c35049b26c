// LineInput: lines that a person types, with editing and history (libedit) where there is a terminal for it.
//
// Without a terminal on both sides, or with TERM=dumb, lines are read as they are and the prompt goes to
// stderr. A line that begins with """ goes on until one that ends with """. Ctrl-C drops what has been typed;
// on an empty line it ends the input, as Ctrl-D does. History lives as long as this object. One thread; one
// object.
#pragma once

#include <memory>
#include <optional>
#include <string>

namespace numoe::clients {

class LineInput {
 public:
  static std::unique_ptr<LineInput> Create();
  virtual ~LineInput() = default;

  /// Without the line's end. Nothing: the input has ended.
  std::optional<std::string> Read(const std::string& prompt);

 protected:
  virtual std::optional<std::string> ReadLine(const std::string& prompt) = 0;
};

}  // namespace numoe::clients
