// Structural tags: free text in which certain beginnings (triggers) oblige the text to continue as a tag.
// CONTRACT.md lists what is supported.
#include <fmt/format.h>

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/json/json_reader.h"
#include "coordinator/text/grammar/front_ends.h"
#include "coordinator/text/grammar/json_syntax.h"
#include "coordinator/text/grammar/regex.h"

namespace numoe::text::grammar {
namespace {

using nlohmann::ordered_json;
using Strings = std::vector<std::string>;
using Machine = std::shared_ptr<const Dfa>;

struct Tag {
  std::string begin;
  ExprId rest = 0;  // the text after `begin`, including the tag's end
};

class TagTranslator {
 public:
  TagTranslator(const GrammarLimits& limits, Expressions& expressions) : limits_(limits), e_(expressions) {}

  absl::StatusOr<RuleId> Translate(const ordered_json& root) {
    if (!root.is_object()) return absl::InvalidArgumentError("the structural tag is not an object");
    const RuleId rule = e_.AddRule("root", true);
    e_.SetBody(rule, root.contains("format") ? Format(root["format"], "format", {}) : Former(root));
    if (!status_.ok()) return status_;
    return rule;
  }

 private:
  ExprId Fail(const std::string& place, const std::string& problem, bool unsupported = false) {
    return Fail(unsupported ? absl::UnimplementedError(fmt::format("{}: {} is not supported", place, problem))
                            : absl::InvalidArgumentError(fmt::format("{}: {}", place, problem)));
  }
  ExprId Fail(absl::Status status) {
    if (status_.ok()) status_ = std::move(status);
    return e_.Never();
  }

  const ordered_json* Member(const ordered_json& object, const char* name, const std::string& place) {
    if (const auto found = object.find(name); found != object.end()) return &*found;
    Fail(place, fmt::format("{} is missing", name));
    return nullptr;
  }

  std::string Text(const ordered_json& object, const char* name, const std::string& place) {
    const ordered_json* value = Member(object, name, place);
    if (value == nullptr) return "";
    if (value->is_string()) return value->get<std::string>();
    Fail(place, fmt::format("{} is not a string", name));
    return "";
  }

  bool Flag(const ordered_json& object, const char* name, const std::string& place) {
    const auto found = object.find(name);
    if (found == object.end() || found->is_null()) return false;
    if (found->is_boolean()) return found->get<bool>();
    Fail(place, fmt::format("{} is not true or false", name));
    return false;
  }

  Strings Texts(const ordered_json& object, const char* name, const std::string& place) {
    Strings texts;
    const ordered_json* value = Member(object, name, place);
    if (value == nullptr) return texts;
    const ordered_json list = value->is_string() ? ordered_json::array({*value}) : *value;
    if (!list.is_array() || list.empty() || list.size() > kAlternativesMax)
      Fail(place, fmt::format("{} is not a list of 1 to {} strings", name, kAlternativesMax));
    for (const ordered_json& text : list) {
      if (!text.is_string()) Fail(place, fmt::format("{} is not a list of strings", name));
      if (!status_.ok()) return {};
      texts.push_back(text.get<std::string>());
    }
    return texts;
  }

  // The form without `format`: {"structures": [{"begin", "schema", "end"}], "triggers": [...]}.
  ExprId Former(const ordered_json& root) {
    const ordered_json* structures = Member(root, "structures", "structural_tag");
    if (structures == nullptr) return e_.Never();
    if (!structures->is_array() || structures->empty())
      return Fail("structures", "expected a list of one or more tags");
    std::vector<Tag> tags;
    for (size_t i = 0; i < structures->size() && status_.ok(); ++i) {
      const std::string place = fmt::format("structures[{}]", i);
      const ordered_json& one = (*structures)[i];
      if (!one.is_object()) return Fail(place, "expected an object");
      const ordered_json* schema = Member(one, "schema", place);
      if (schema == nullptr) return e_.Never();
      const ExprId content = Schema(*schema, place + ".schema");
      tags.push_back(
          {Text(one, "begin", place), e_.Sequence({content, e_.Literal(Text(one, "end", place))})});
    }
    return Triggered(tags, Texts(root, "triggers", "structural_tag"), {}, {.place = "structures"});
  }

  // Translates a format. `ends` are the texts that end the tag around it; free text does not contain them.
  ExprId Format(const ordered_json& format, const std::string& place, const Strings& ends) {
    if (++depth_ > limits_.nesting || e_.size() > limits_.expressions)
      return Fail(absl::ResourceExhaustedError(
          "the structural tag is nested too deeply, or has too many parts; simplify it"));
    const ExprId made =
        format.is_object() ? FormatOfType(format, place, ends) : Fail(place, "expected an object");
    --depth_;
    return made;
  }

  ExprId FormatOfType(const ordered_json& format, const std::string& place, const Strings& ends) {
    const std::string type = Text(format, "type", place);
    if (!status_.ok()) return e_.Never();
    if (type == "const_string") return e_.Literal(Text(format, "value", place));
    if (type == "any_text") return Free(Excluded(format, place, ends), place);
    if (type == "json_schema") {
      const ordered_json* schema = Member(format, "json_schema", place);
      return schema == nullptr ? e_.Never() : Schema(*schema, place + ".json_schema");
    }
    if (type == "regex") return Regex(Text(format, "pattern", place), place);
    if (type == "grammar") return Grammar(Text(format, "grammar", place), place);
    if (type == "sequence" || type == "or") return Elements(format, type, place, ends);
    if (type == "tag") {
      const Tag tag = ReadTag(format, place);
      return e_.Sequence({e_.Literal(tag.begin), tag.rest});
    }
    if (type == "triggered_tags") {
      return Triggered(Tags(format, place), Texts(format, "triggers", place), Excluded(format, place, ends),
                       {.place = place,
                        .at_least_one = Flag(format, "at_least_one", place),
                        .stop_after_first = Flag(format, "stop_after_first", place)});
    }
    if (type == "tags_with_separator") return Separated(format, place);
    return Fail(place, fmt::format("the type {}", Printable(type.substr(0, 60))), true);
  }

  ExprId Schema(const ordered_json& schema, const std::string& place) {
    const std::string text = schema.is_string() ? schema.get<std::string>() : schema.dump();
    const auto rule = TranslateJsonSchema(text, limits_, e_);
    return rule.ok() ? e_.Call(*rule) : Fail(Annotate(rule.status(), place));
  }
  ExprId Regex(const std::string& pattern, const std::string& place) {
    auto machine = CompileRegex(pattern, RegexMatch::kWhole, EncodePlain, limits_);
    if (!machine.ok()) return Fail(Annotate(machine.status(), place));
    return e_.Machine(Charge(*std::move(machine)));
  }
  ExprId Grammar(const std::string& text, const std::string& place) {
    const auto rule = TranslateEbnf(text, limits_, e_);
    return rule.ok() ? e_.Call(*rule) : Fail(Annotate(rule.status(), place));
  }

  ExprId Elements(const ordered_json& format, const std::string& type, const std::string& place,
                  const Strings& ends) {
    const ordered_json* elements = Member(format, "elements", place);
    if (elements == nullptr) return e_.Never();
    if (!elements->is_array() || elements->empty())
      return Fail(place, "elements is not a list of one or more");
    std::vector<ExprId> parts;
    for (size_t i = 0; i < elements->size() && status_.ok(); ++i)
      parts.push_back(Format((*elements)[i], fmt::format("{}.elements[{}]", place, i), ends));
    return type == "or" ? e_.Choice(parts) : e_.Sequence(parts);
  }

  Strings Excluded(const ordered_json& format, const std::string& place, Strings ends) {
    if (format.contains("excludes") && !format["excludes"].empty()) {
      for (std::string& text : Texts(format, "excludes", place)) ends.push_back(std::move(text));
    }
    return ends;
  }

  std::vector<Tag> Tags(const ordered_json& format, const std::string& place) {
    std::vector<Tag> tags;
    const ordered_json* list = Member(format, "tags", place);
    if (list == nullptr) return tags;
    if (!list->is_array() || list->empty()) Fail(place, "tags is not a list of one or more");
    for (size_t i = 0; i < list->size() && status_.ok(); ++i) {
      const std::string where = fmt::format("{}.tags[{}]", place, i);
      (*list)[i].is_object() ? tags.push_back(ReadTag((*list)[i], where))
                             : static_cast<void>(Fail(where, "expected an object"));
    }
    return tags;
  }

  Tag ReadTag(const ordered_json& tag, const std::string& place) {
    Tag read = {Text(tag, "begin", place), e_.Never()};
    const Strings ends = Texts(tag, "end", place);
    const ordered_json* content = Member(tag, "content", place);
    if (!status_.ok() || content == nullptr) return read;
    // With an empty end, free text cannot be kept free of it.
    const Strings shown = std::find(ends.begin(), ends.end(), "") == ends.end() ? ends : Strings();
    std::vector<ExprId> literals;
    for (const std::string& end : ends) literals.push_back(e_.Literal(end));
    read.rest = e_.Sequence({Format(*content, place + ".content", shown), e_.Choice(literals)});
    return read;
  }

  // Tags with only the separator between them.
  ExprId Separated(const ordered_json& format, const std::string& place) {
    std::vector<ExprId> choices;
    for (const Tag& tag : Tags(format, place))
      choices.push_back(e_.Sequence({e_.Literal(tag.begin), tag.rest}));
    const ExprId one = Shared(e_.Choice(choices));
    const ExprId separator = e_.Literal(Text(format, "separator", place));
    const ExprId all = Flag(format, "stop_after_first", place)
                           ? one
                           : e_.Sequence({one, e_.Repeat(e_.Sequence({separator, one}), 0, kUnbounded)});
    return Flag(format, "at_least_one", place) ? all : e_.Optional(all);
  }

  struct Dispatch {
    std::string place;
    bool at_least_one = false;
    bool stop_after_first = false;
  };

  // Free text in which every trigger begins one of its tags.
  ExprId Triggered(const std::vector<Tag>& tags, const Strings& triggers, const Strings& excluded,
                   const Dispatch& how) {
    if (!status_.ok()) return e_.Never();
    Strings stops = excluded;
    stops.insert(stops.end(), triggers.begin(), triggers.end());
    if (std::find(stops.begin(), stops.end(), "") != stops.end())
      return Fail(how.place, "an empty text cannot be excluded, nor be a trigger");
    const Machine stopped = Stopped(stops);
    std::vector<bool> begun(tags.size(), false);
    std::vector<ExprId> choices;
    for (const std::string& trigger : triggers) {
      std::vector<ExprId> rests;
      for (size_t i = 0; i < tags.size(); ++i) {
        if (tags[i].begin.compare(0, trigger.size(), trigger) != 0) continue;
        begun[i] = true;
        rests.push_back(e_.Sequence({e_.Literal(tags[i].begin.substr(trigger.size())), tags[i].rest}));
      }
      if (rests.empty())
        return Fail(how.place, fmt::format("no tag begins with the trigger {}", Printable(trigger)));
      choices.push_back(e_.Sequence({UpTo(trigger, stopped), Shared(e_.Choice(rests))}));
    }
    for (size_t i = 0; i < tags.size(); ++i) {
      if (!begun[i])
        return Fail(how.place,
                    fmt::format("tag {} does not begin with a trigger: {}", i, Printable(tags[i].begin)));
    }
    if (!status_.ok()) return e_.Never();
    const ExprId one = e_.Choice(choices), rest = Free(stops, how.place);
    if (how.stop_after_first) return how.at_least_one ? one : e_.Choice({one, rest});
    return e_.Sequence({e_.Repeat(one, how.at_least_one ? 1 : 0, kUnbounded), rest});
  }

  ExprId Shared(ExprId body) {
    const RuleId rule = e_.AddRule("tags", true);
    e_.SetBody(rule, body);
    return e_.Call(rule);
  }

  ExprId AnyText() { return e_.Repeat(EncodePlain(e_, CodepointSet::All()), 0, kUnbounded); }

  // Counts the states of a machine. All machines become part of one automaton, so together they must not have
  // more states than that may have.
  Machine Charge(absl::StatusOr<Machine> machine) {
    if (!machine.ok()) {
      Fail(machine.status());
    } else if ((states_ += (*machine)->states.size()) > limits_.nfa_states) {
      Fail(absl::ResourceExhaustedError(fmt::format(
          "the structural tag is too large: its parts need more than {} states", limits_.nfa_states)));
    }
    return status_.ok() ? *std::move(machine) : std::make_shared<const Dfa>();
  }
  Machine Compile(ExprId expression) { return Charge(CompileMachine(e_, expression, limits_)); }
  Machine Without(const Machine& all, const Machine& others) {
    return Charge(Combine(*all, *others, Combination::kFirstOnly, limits_));
  }

  ExprId OneOf(const Strings& texts) {
    std::vector<ExprId> literals;
    for (const std::string& text : texts) literals.push_back(e_.Literal(text));
    return e_.Choice(literals);
  }

  // Any text that contains none of `stops`.
  ExprId Free(const Strings& stops, const std::string& place) {
    if (std::find(stops.begin(), stops.end(), "") != stops.end())
      return Fail(place, "an empty text cannot be excluded, nor be a trigger");
    if (stops.empty()) return AnyText();
    return e_.Machine(
        Without(Compile(AnyText()), Compile(e_.Sequence({AnyText(), OneOf(stops), AnyText()}))));
  }

  // Any text that contains one of `stops` before its last character.
  Machine Stopped(const Strings& stops) {
    const ExprId character = EncodePlain(e_, CodepointSet::All());
    return Compile(e_.Sequence({AnyText(), OneOf(stops), e_.Repeat(character, 1, kUnbounded)}));
  }

  // Any text that ends with `trigger` and does not match `stopped`.
  ExprId UpTo(const std::string& trigger, const Machine& stopped) {
    return e_.Machine(Without(Compile(e_.Sequence({AnyText(), e_.Literal(trigger)})), stopped));
  }

  static constexpr size_t kAlternativesMax = 64;

  const GrammarLimits& limits_;
  Expressions& e_;
  absl::Status status_;
  size_t depth_ = 0;
  size_t states_ = 0;  // the states of all machines so far
};

}  // namespace

absl::StatusOr<RuleId> TranslateStructuralTag(std::string_view text, const GrammarLimits& limits,
                                              Expressions& expressions) {
  ASSIGN_OR_RETURN(const ordered_json root, ParseBoundedJson(text));
  return TagTranslator(limits, expressions).Translate(root);
}

}  // namespace numoe::text::grammar
