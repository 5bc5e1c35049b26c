// The syntax tree of a template. All nodes have one type; a node's kind says which fields it uses.
//
// The parsed template owns the tree, which is immutable and shared by all renderings. `line` is for error
// messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "coordinator/text/chat/jinja_value.h"

namespace numoe::text::jinja {

enum class Kind : uint8_t {
  // statements
  kText,         // text
  kPrint,        // args[0]
  kIf,           // args: condition, condition, ...; blocks: one for each condition, and one more for else
  kFor,          // args: target, iterable, condition (may be null); text: "recursive"; blocks: body, else
  kSet,          // args: target (kName, kAttribute, kTuple of them), value
  kSetBlock,     // args[0]: target; args[1], if present: filters on a kBody; blocks[0]
  kMacro,        // text: name; names: parameters; args: defaults (may be null); uses; blocks[0]
  kCallBlock,    // args: kCall, and the kMacro that is its caller
  kWith,         // args: target, value, ...; blocks[0]
  kBlock,        // text: name; names: "scoped" if the block is scoped; blocks[0]
  kAutoescape,   // args[0]; blocks[0]
  kFilterBlock,  // args[0]: filter chain applied to a kBody; blocks[0]
  kGeneration,   // blocks[0]
  kBreak,
  kContinue,
  // expressions
  kLiteral,    // value
  kName,       // text
  kList,       // args
  kTuple,      // args
  kDict,       // args: key, value, ...
  kAttribute,  // args[0], text
  kItem,       // args[0], args[1]
  kSlice,      // args[0], and begin, end, step (null if not given)
  kCall,       // args[0] callee, then positional; names/keywords (with "*" and "**" for spread values)
  kFilter,     // args[0], text: filter, then positional; names/keywords
  kTest,       // args[0], text: test, then positional; names/keywords
  kUnary,      // text: "not" "-" "+"; args[0]
  kBinary,     // text: operator; args[0], args[1]
  kCompare,    // args: operands; names: operators between them
  kTernary,    // args: condition, then, else (null for undefined)
  kBody,       // the text that a filter block captured
};

/// The special names that the body of a macro uses besides its parameters.
using MacroUses = uint8_t;
enum : MacroUses { kUsesVarargs = 1, kUsesKwargs = 2, kUsesCaller = 4 };

struct Node {
  Kind kind = Kind::kText;
  int line = 1;
  MacroUses uses = 0;
  std::string text;
  Value value;
  std::vector<std::unique_ptr<Node>> args;
  std::vector<std::string> names;
  std::vector<std::unique_ptr<Node>> keywords;  // values for `names` of a call or filter
  std::vector<std::vector<std::unique_ptr<Node>>> blocks;
};

using NodePtr = std::unique_ptr<Node>;
using Block = std::vector<NodePtr>;

}  // namespace numoe::text::jinja
