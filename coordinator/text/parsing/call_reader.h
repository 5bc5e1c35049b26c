// CallReader: the inside of one tool call, in one format, as its text comes.
//
// OutputParser finds the marks and tells the reader what lies between them; the reader finds name and
// arguments and gives them to the sink. A call is announced once its name is complete and its arguments have
// begun, so that a call cut off before that never existed; from then on arguments go out as they come.
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
  /// What was no call after all.
  virtual void NoCall(std::string_view text) = 0;
};

class CallReader {
 public:
  virtual ~CallReader() = default;
  /// A call begins. Text up to Body is its head; formats without a mark between them begin with the body.
  virtual void Begin() = 0;
  virtual void Head(std::string_view text) = 0;
  virtual void Body(std::string_view text) = 0;
  /// `closed`: by its mark, or by a model that ended its turn; otherwise the answer was cut off inside it.
  virtual void End(bool closed) = 0;
  /// A call begins that no mark encloses: it is over where its own text ends it.
  virtual void BeginBare() { Begin(); }
  /// What the body held behind a call that BeginBare began, once that call is over.
  virtual std::optional<std::string> TakeRest() { return std::nullopt; }
};

/// The reader for a format other than kNone. Sink and tools must outlive it.
std::unique_ptr<CallReader> MakeCallReader(ToolSyntax syntax, CallSink& sink,
                                           const std::vector<DeclaredTool>& tools);

}  // namespace numoe::text
