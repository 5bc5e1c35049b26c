#include "coordinator/text/chat/jinja_value.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/base/check.h"
#include "coordinator/text/chat/chat_limits.h"
#include "coordinator/text/chat/jinja_objects.h"

namespace numoe::text::jinja {
namespace {

// Values whose containers are being destroyed. The destructor of the outermost container destroys them one by
// one; otherwise each would destroy its contents inside its own destructor, with a stack frame for each
// level.
thread_local std::vector<Value>* waiting = nullptr;

bool HoldsValues(const Value& value) {
  return value.list() != nullptr || value.dict() != nullptr || value.object() != nullptr ||
         value.If<Callable>() != nullptr;
}

template <typename Items, typename ValueOf>
void Dismantle(Items& items, ValueOf value_of) {
  if (std::none_of(items.begin(), items.end(), [&](auto& item) { return HoldsValues(value_of(item)); }))
    return;
  std::vector<Value> mine;
  const bool outermost = waiting == nullptr;
  if (outermost) waiting = &mine;
  for (auto& item : items) {
    if (HoldsValues(value_of(item))) waiting->push_back(std::move(value_of(item)));
  }
  while (outermost && !mine.empty()) {
    const Value last = std::move(mine.back());
    mine.pop_back();
  }
  if (outermost) waiting = nullptr;
}

}  // namespace

List::~List() {
  Dismantle(*this, [](Value& item) -> Value& { return item; });
}
Dict::~Dict() {
  Dismantle(items, [](std::pair<Value, Value>& item) -> Value& { return item.second; });
}

Str::Str(std::string text, bool trusted) : text_(std::move(text)) { AddRun(text_.size(), trusted); }

void Str::AddRun(size_t length, bool trusted) {
  if (length == 0) return;
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().length += length;
  } else {
    runs_.push_back({length, trusted});
  }
}

void Str::Append(const Str& other) {
  text_ += other.text_;
  for (const Run& run : std::vector<Run>(other.runs_)) AddRun(run.length, run.trusted);
}

Str Str::Substr(size_t begin, size_t length) const {
  Str out;
  out.markup_ = markup_;
  begin = std::min(begin, text_.size());
  length = std::min(length, text_.size() - begin);
  out.text_ = text_.substr(begin, length);
  size_t at = 0;
  for (const Run& run : runs_) {
    const size_t from = std::max(at, begin);
    const size_t to = std::min(at + run.length, begin + length);
    if (from < to) out.AddRun(to - from, run.trusted);
    at += run.length;
  }
  return out;
}

Str Str::AsMarkup(bool markup) const {
  Str out = *this;
  out.markup_ = markup;
  return out;
}

bool Str::AllTrusted() const {
  return std::all_of(runs_.begin(), runs_.end(), [](const Run& run) { return run.trusted; });
}

std::vector<TextSegment> Str::Segments() const {
  std::vector<TextSegment> segments;
  size_t at = 0;
  for (const Run& run : runs_) {
    segments.push_back({text_.substr(at, run.length), run.trusted});
    at += run.length;
  }
  return segments;
}

Value Value::Text(std::string text, bool trusted) { return Value(Str(std::move(text), trusted)); }
Value Value::NewList(List items) { return Value(std::make_shared<List>(std::move(items))); }
Value Value::NewTuple(List items) {
  return Value(Sequence{Sequence::Kind::kTuple, std::make_shared<List>(std::move(items)), ""});
}
Value Value::NewGenerator(List items) {
  return Value(Sequence{Sequence::Kind::kGenerator, std::make_shared<List>(std::move(items)), ""});
}

const List* Value::list() const {
  if (const auto* p = plain_list()) return p->get();
  return sequence() == nullptr ? nullptr : sequence()->items.get();
}
const List* Value::indexable() const {
  const bool places = plain_list() != nullptr || tuple() || IsSequence(Sequence::Kind::kRange);
  return places ? list() : nullptr;
}
const Dict* Value::dict() const {
  const auto* p = std::get_if<std::shared_ptr<Dict>>(&data);
  return p == nullptr ? nullptr : p->get();
}
const Object* Value::object() const {
  const auto* p = std::get_if<std::shared_ptr<Object>>(&data);
  return p == nullptr ? nullptr : p->get();
}
bool Value::number() const {
  return std::holds_alternative<bool>(data) || std::holds_alternative<int64_t>(data) ||
         std::holds_alternative<double>(data);
}
bool Value::callable() const {
  if (const Object* o = object()) return o->kind != Object::Kind::kCycler;
  return std::holds_alternative<Macro>(data) || std::holds_alternative<Callable>(data);
}

const Value* Dict::Find(const Value& key) const {
  for (const auto& [k, v] : items) {
    if (Equal(k, key)) return &v;
  }
  return nullptr;
}
const Value* Dict::FindName(std::string_view key) const {
  for (const auto& [k, v] : items) {
    if (k.str() != nullptr && k.str()->text() == key) return &v;
  }
  return nullptr;
}
void Dict::Set(const Value& key, Value value) {
  for (auto& [k, v] : items) {
    if (Equal(k, key)) {
      v = std::move(value);
      return;
    }
  }
  items.emplace_back(key, std::move(value));
}

bool Truthy(const Value& value) {
  if (value.undefined() || value.none()) return false;
  if (const auto* b = value.If<bool>()) return *b;
  if (const auto* i = value.If<int64_t>()) return *i != 0;
  if (const auto* d = value.If<double>()) return *d != 0;
  return Length(value).value_or(1) != 0;
}

std::optional<int64_t> Length(const Value& value) {
  const Object* object = value.object();
  if (value.undefined()) return 0;
  if (value.str() != nullptr) return static_cast<int64_t>(CodePointOffsets(value.str()->text()).size() - 1);
  if (value.list() != nullptr && !value.IsSequence(Sequence::Kind::kGenerator))
    return static_cast<int64_t>(value.list()->size());
  if (value.dict() != nullptr && !value.dict()->is_namespace)
    return static_cast<int64_t>(value.dict()->items.size());
  if (object != nullptr && object->kind == Object::Kind::kLoop)
    return static_cast<int64_t>(object->items.size());
  return std::nullopt;
}

std::optional<double> AsDouble(const Value& value) {
  if (const auto* d = value.If<double>()) return *d;
  if (const auto i = AsInt(value)) return static_cast<double>(*i);
  return std::nullopt;
}

std::optional<int64_t> AsInt(const Value& value) {
  if (const auto* i = value.If<int64_t>()) return *i;
  if (const auto* b = value.If<bool>()) return *b ? 1 : 0;
  return std::nullopt;
}

bool Equal(const Value& a, const Value& b, int depth) {
  if (depth > limits::kTemplateDepthMax) return false;
  if (a.number() && b.number()) {
    if (a.If<double>() == nullptr && b.If<double>() == nullptr) return *AsInt(a) == *AsInt(b);
    return *AsDouble(a) == *AsDouble(b);
  }
  if (a.data.index() != b.data.index()) return false;
  if (a.undefined() || a.none()) return true;
  if (a.str() != nullptr) return a.str()->text() == b.str()->text();
  if (a.object() != nullptr) return a.object() == b.object();
  if (a.sequence() != nullptr) {
    if (a.sequence()->kind != b.sequence()->kind) return false;
    if (a.indexable() == nullptr) return a.list() == b.list();
  }
  if (const List* items = a.list()) {
    return std::equal(items->begin(), items->end(), b.list()->begin(), b.list()->end(),
                      [depth](const Value& x, const Value& y) { return Equal(x, y, depth + 1); });
  }
  if (const Dict* d = a.dict()) {
    const Dict* e = b.dict();
    if (d->is_namespace || e->is_namespace) return d == e;
    return d->items.size() == e->items.size() &&
           std::all_of(d->items.begin(), d->items.end(), [&](const auto& item) {
             const Value* other = e->Find(item.first);
             return other != nullptr && Equal(item.second, *other, depth + 1);
           });
  }
  if (const auto* macro = a.If<Macro>()) return macro->node == b.If<Macro>()->node;
  const auto& callable = std::get<Callable>(a.data);
  const auto& other = std::get<Callable>(b.data);
  return callable.name == other.name && callable.self == other.self;
}

std::optional<int> Compare(const Value& a, const Value& b, int depth) {
  const auto order = [](const auto& x, const auto& y) { return x < y ? -1 : y < x ? 1 : 0; };
  if (a.number() && b.number()) {
    if (AsInt(a) && AsInt(b)) return order(*AsInt(a), *AsInt(b));
    return order(*AsDouble(a), *AsDouble(b));
  }
  // The order of UTF-8 is the order of code points.
  if (a.str() != nullptr && b.str() != nullptr) return order(a.str()->text(), b.str()->text());
  const bool lists = a.plain_list() != nullptr && b.plain_list() != nullptr;
  if ((!lists && !(a.tuple() && b.tuple())) || depth > limits::kTemplateDepthMax) return std::nullopt;
  for (size_t i = 0; i < std::min(a.list()->size(), b.list()->size()); ++i) {
    const Value &x = (*a.list())[i], &y = (*b.list())[i];
    if (!Equal(x, y, depth + 1)) return Compare(x, y, depth + 1);
  }
  return order(a.list()->size(), b.list()->size());
}

bool Hashable(const Value& value, int depth) {
  if (value.tuple() && depth <= limits::kTemplateDepthMax) {
    return std::all_of(value.list()->begin(), value.list()->end(),
                       [depth](const Value& item) { return Hashable(item, depth + 1); });
  }
  return !value.tuple() && value.plain_list() == nullptr &&
         (value.dict() == nullptr || value.dict()->is_namespace);
}

std::string_view TypeName(const Value& value) {
  static constexpr std::string_view kNames[] = {"undefined", "none",   "boolean",  "integer",
                                                "float",     "string", "list",     "sequence",
                                                "mapping",   "macro",  "function", "object"};
  static_assert(std::size(kNames) == std::variant_size_v<decltype(value.data)>);
  static constexpr std::string_view kSequences[] = {
      "tuple", "range", "keys of a mapping", "values of a mapping", "items of a mapping", "generator"};
  if (value.sequence() != nullptr) return kSequences[static_cast<size_t>(value.sequence()->kind)];
  return kNames[value.data.index()];
}

std::vector<size_t> CodePointOffsets(std::string_view text) {
  std::vector<size_t> offsets;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) offsets.push_back(i);
  }
  offsets.push_back(text.size());
  return offsets;
}

}  // namespace numoe::text::jinja
