// Values of the template language, with Python's semantics and the origin of each text.
//
// A string knows which of its bytes the template wrote (trusted) and which came from the request; only the
// former may become control tokens. It also knows whether it is markup, which is never escaped again. Lists
// and dicts are shared by reference, as in Python; dicts keep insertion order. Integers have 64 bits; the
// operation that computes a larger one refuses it. Functions here are pure; the caller reports impossible
// operations (comparing a string with a number).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/text_segment.h"

namespace numoe::text::jinja {

/// Text that consists of runs of trusted and untrusted bytes.
class Str {
 public:
  Str() = default;
  Str(std::string text, bool trusted);
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }
  size_t size() const { return text_.size(); }
  /// Appends a text. This string's kind (text or markup) stays, whatever the kind of `other`.
  void Append(const Str& other);
  Str Substr(size_t begin, size_t length) const;  // bytes
  bool AllTrusted() const;
  bool markup() const { return markup_; }
  Str AsMarkup(bool markup = true) const;
  /// Returns the runs as segments, in order.
  std::vector<TextSegment> Segments() const;

 private:
  struct Run {
    size_t length;
    bool trusted;
  };
  void AddRun(size_t length, bool trusted);

  std::string text_;
  std::vector<Run> runs_;
  bool markup_ = false;
};

struct Value;
struct Node;
struct Dict;
struct Object;
using Scope = std::map<std::string, Value>;
using Scopes = std::vector<std::shared_ptr<Scope>>;

/// A list that is destroyed without recursion, however deeply lists are nested.
struct List : std::vector<Value> {
  using std::vector<Value>::vector;
  List() = default;
  List(const List&) = default;
  List(List&&) = default;
  List& operator=(const List&) = default;
  List& operator=(List&&) = default;
  ~List();
};

/// A value that is read like a list but is not one.
struct Sequence {
  enum class Kind : uint8_t { kTuple, kRange, kKeys, kValues, kItems, kGenerator };
  Kind kind = Kind::kTuple;
  std::shared_ptr<List> items;  // a generator has only the items that have not been read yet
  std::string label;            // a range's printed form; "group" for a tuple that groupby made
};

struct Undefined {
  std::string name;  // the name that was looked up, for messages
};
struct None {};
/// A macro, or the body of a call block.
struct Macro {
  const Node* node = nullptr;
  std::shared_ptr<const Scopes> closure;  // its scopes besides the globals and the template's own names
  bool autoescape = false;                // whether output was escaped at its definition
};
/// A global function, or a method with the value to which it is bound.
struct Callable {
  std::string name;
  std::shared_ptr<Value> self;
};

struct Value {
  std::variant<Undefined, None, bool, int64_t, double, Str, std::shared_ptr<List>, Sequence,
               std::shared_ptr<Dict>, Macro, Callable, std::shared_ptr<Object>>
      data;

  Value() = default;
  template <typename T>
  Value(T value) : data(std::move(value)) {}  // NOLINT: values convert from their contents
  static Value Text(std::string text, bool trusted = true);
  static Value NewList(List items = {});
  static Value NewTuple(List items);
  /// The result of a filter that is lazy in Python. It can be read once, and is true even if it has no items.
  static Value NewGenerator(List items);

  template <typename T>
  const T* If() const {
    return std::get_if<T>(&data);
  }
  /// The items of a list or sequence.
  const List* list() const;
  const std::shared_ptr<List>* plain_list() const { return std::get_if<std::shared_ptr<List>>(&data); }
  const Sequence* sequence() const { return std::get_if<Sequence>(&data); }
  bool IsSequence(Sequence::Kind kind) const { return sequence() != nullptr && sequence()->kind == kind; }
  bool tuple() const { return IsSequence(Sequence::Kind::kTuple); }
  /// The items of a list, tuple or range, which can be indexed.
  const List* indexable() const;
  const Dict* dict() const;
  const Object* object() const;
  const Str* str() const { return std::get_if<Str>(&data); }
  bool undefined() const { return std::holds_alternative<Undefined>(data); }
  bool none() const { return std::holds_alternative<None>(data); }
  bool number() const;  // bool counts, as in Python
  bool callable() const;
};

struct Dict {
  std::vector<std::pair<Value, Value>> items;
  bool is_namespace = false;  // templates may set its attributes

  Dict() = default;
  Dict(const Dict&) = default;
  Dict(Dict&&) = default;
  Dict& operator=(const Dict&) = default;
  Dict& operator=(Dict&&) = default;
  ~Dict();  // without recursion, like that of List
  const Value* Find(const Value& key) const;
  const Value* FindName(std::string_view key) const;
  void Set(const Value& key, Value value);
};

bool Truthy(const Value& value);
/// Python's len(); nullopt if Python would raise TypeError.
std::optional<int64_t> Length(const Value& value);
/// Python's ==. Returns false for values that are nested deeper than templates may nest them.
bool Equal(const Value& a, const Value& b, int depth = 0);
/// Returns -1, 0 or 1; nullopt if Python would raise TypeError.
std::optional<int> Compare(const Value& a, const Value& b, int depth = 0);
/// Whether Python would accept the value as a key of a dict.
bool Hashable(const Value& value, int depth = 0);
std::optional<double> AsDouble(const Value& value);  // numbers and bools
std::optional<int64_t> AsInt(const Value& value);    // ints and bools
/// Returns "string", "list", ... for messages.
std::string_view TypeName(const Value& value);

/// Returns the byte offset of each code point of UTF-8 text, and the offset after the last one.
std::vector<size_t> CodePointOffsets(std::string_view text);

}  // namespace numoe::text::jinja
