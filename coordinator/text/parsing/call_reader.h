// CallReader: reads the inside of a tool call in one format, piece by piece as its text is generated.
//
// OutputParser finds the marks and passes the text between them to the reader. The reader finds the call's
// name and arguments and passes them to the sink. It announces a call when the name is complete and the
// arguments have begun, so a call that is cut off earlier is never reported; later arguments are passed on
// immediately.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/text/parsing/declared_tools.h"
#include "coordinator/text/parsing/output_format.h"

namespace numoe::text {

class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void BeginCall(const std::string& name) = 0;
  virtual void Arguments(std::string_view text) = 0;
  /// Receives the text of what looked like a call and turned out not to be one.
  virtual void NoCall(std::string_view text) = 0;
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  /// A call begins. Its head comes first (Head), then its body (Body). A format that has no mark between the
  /// two has only a body.
  virtual void Begin() = 0;
  virtual void Head(std::string_view text) = 0;
  virtual void Body(std::string_view text) = 0;
  /// The call is over. `closed` is true if its end mark came or the model ended its turn, and false if the
  /// answer was cut off inside the call.
  virtual void End(bool closed) = 0;
  /// A call without marks around it begins (unmarked_calls.h); its own text says where it ends.
  virtual void BeginUnmarked() { Begin(); }
  /// Returns the body's text after the end of a call that BeginUnmarked began; nullopt while the call
  /// continues.
  virtual std::optional<std::string> TakeRest() { return std::nullopt; }
};

/// Returns the reader for a format. `sink` and `tools` must outlive it. REQUIRES: `syntax` is not kNone.
std::unique_ptr<CallReader> MakeCallReader(ToolSyntax syntax, CallSink& sink,
                                           const std::vector<DeclaredTool>& tools);

}  // namespace numoe::text
