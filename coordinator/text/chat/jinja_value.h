// Values of the template language, with Python's semantics and a memory of where text came from.
//
// A string knows which of its bytes the template wrote itself (trusted) and which came from the request: only
// the former may become control tokens. Lists and dicts are shared by reference, as in Python; dicts keep
// insertion order. Functions here are pure; what cannot be done (comparing a string with a number) is
// reported by the caller.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/text_segment.h"
#include "nlohmann/json.hpp"

namespace numoe::text::jinja {

/// Text in runs of equal trust.
class Str {
 public:
  Str() = default;
  Str(std::string text, bool trusted);
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  size_t size() const { return text_.size(); }
  void Append(const Str& other);
  Str Substr(size_t begin, size_t length) const;  // bytes
  bool AllTrusted() const;
  /// The runs as segments, in order.
  std::vector<TextSegment> Segments() const;

 private:
  struct Run {
    size_t length;
    bool trusted;
  };
  void AddRun(size_t length, bool trusted);

  std::string text_;
  std::vector<Run> runs_;
};

struct Value;
struct Node;
using List = std::vector<Value>;
struct Dict;
struct Undefined {
  std::string name;  // what was looked up, for messages
};
struct None {};
struct Macro {
  const Node* node = nullptr;
};
/// A global function, or a method with the value it is bound to.
struct Callable {
  std::string name;
  std::shared_ptr<Value> self;
};

struct Value {
  std::variant<Undefined, None, bool, int64_t, double, Str, std::shared_ptr<List>, std::shared_ptr<Dict>,
               Macro, Callable>
      data;

  Value() = default;
  template <typename T>
  Value(T value) : data(std::move(value)) {}  // NOLINT: values convert from what they hold
  static Value Text(std::string text, bool trusted = true) { return Value(Str(std::move(text), trusted)); }
  static Value NewList(List items = {}) { return Value(std::make_shared<List>(std::move(items))); }

  template <typename T>
  const T* If() const {
    return std::get_if<T>(&data);
  }
  const List* list() const;
  const Dict* dict() const;
  const Str* str() const { return std::get_if<Str>(&data); }
  bool undefined() const { return std::holds_alternative<Undefined>(data); }
  bool none() const { return std::holds_alternative<None>(data); }
  bool number() const;  // bool counts, as in Python
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;
  bool is_namespace = false;  // attributes may be set

  const Value* Find(const Value& key) const;
  const Value* FindName(std::string_view key) const;
  void Set(const Value& key, Value value);
};

/// JSON from the request: every string in it is untrusted.
Value FromJson(const nlohmann::ordered_json& json);

bool Truthy(const Value& value);
bool Equal(const Value& a, const Value& b);
/// -1, 0, 1; nullopt when Python would raise TypeError.
std::optional<int> Compare(const Value& a, const Value& b);
std::optional<double> AsDouble(const Value& value);  // numbers and bools
std::optional<int64_t> AsInt(const Value& value);    // ints and bools
/// Python's str(): what printing writes.
Str ToStr(const Value& value);
/// Python's repr().
std::string Repr(const Value& value);
/// Python's repr() of a float.
std::string FloatRepr(double value);
/// "string", "list", ... for messages.
std::string_view TypeName(const Value& value);

struct JsonStyle {
  bool ensure_ascii = false;
  int indent = -1;  // -1: one line
  std::string item_separator = ", ";
  std::string key_separator = ": ";
  bool sort_keys = false;
};
/// json.dumps(value); nullopt for what JSON cannot hold (undefined, functions).
std::optional<std::string> ToJson(const Value& value, const JsonStyle& style);

/// Code points of UTF-8 text: byte offsets of each, and one past the last.
std::vector<size_t> CodePointOffsets(std::string_view text);

}  // namespace numoe::text::jinja
