#include "coordinator/serving/api/call_sequence.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/text/grammar/token_trie.h"

namespace numoe::serving {
namespace {

// Tools with equal arguments share a grammar; for most tools that is any object.
using ToolsByArguments = std::map<text::GrammarSource, std::vector<std::string>>;

std::string Listed(const std::vector<std::string>& names) {
  NUMOE_CHECK(!names.empty());
  return names.size() == 1 ? names[0] : fmt::format("{} and {} others", names[0], names.size() - 1);
}

class FormsCompiler {
 public:
  FormsCompiler(text::ToolSyntax syntax, text::GrammarCache& grammars) : grammars_(grammars) {
    forms_.syntax = syntax;
  }

  absl::StatusOr<std::shared_ptr<const CallForms>> Compile(const std::vector<DeclaredCall>& calls) {
    ToolsByArguments tools;
    for (const DeclaredCall& call : calls) tools[call.arguments].push_back(call.name);
    for (const auto& [arguments, names] : tools)
      RETURN_IF_ERROR(Annotate(Add(arguments, names), Parameters(names)));
    NUMOE_CHECK(!forms_.bodies.empty());
    if (forms_.syntax == text::ToolSyntax::kDeepSeek)
      forms_.heads.push_back({"function", std::move(fenced_)});
    return std::make_shared<const CallForms>(std::move(forms_));
  }

 private:
  static std::string Parameters(const std::vector<std::string>& names) {
    return fmt::format("the parameters of {}", Listed(names));
  }

  absl::Status Add(const text::GrammarSource& arguments, const std::vector<std::string>& names) {
    const auto framed = [&](const char* left, const char* right, const char* after) {
      text::GrammarSource source = arguments;
      for (const std::string& name : names) source.before.push_back(left + name + right);
      source.after = after;
      return source;
    };
    if (forms_.syntax == text::ToolSyntax::kHermes)
      return AddBody(framed("\n{\"name\": \"", "\", \"arguments\": ", "}\n"));
    for (const std::string& name : names) {
      const bool kimi = forms_.syntax == text::ToolSyntax::kKimi;
      forms_.heads.push_back({(kimi ? "functions." : "") + name, {forms_.bodies.size()}});
    }
    RETURN_IF_ERROR(AddBody(arguments));
    if (forms_.syntax != text::ToolSyntax::kDeepSeek) return absl::OkStatus();
    fenced_.push_back(forms_.bodies.size());
    return AddBody(framed("", "\n```json\n", "\n```"));
  }

  absl::Status AddBody(const text::GrammarSource& source) {
    ASSIGN_OR_RETURN(auto body, grammars_.Get(source));
    forms_.bodies.push_back(std::move(body));
    return absl::OkStatus();
  }

  text::GrammarCache& grammars_;
  CallForms forms_;
  std::vector<size_t> fenced_;  // bodies in DeepSeek V3's form
};

std::vector<std::string> GapTexts(text::ToolSyntax syntax, bool first) {
  if (syntax == text::ToolSyntax::kHermes && first) return {"", "\n", "\n\n"};  // after </think>
  if (syntax == text::ToolSyntax::kKimi || first) return {""};
  return {"", "\n"};
}

}  // namespace

absl::StatusOr<std::shared_ptr<const CallForms>> CompileCallForms(const std::vector<DeclaredCall>& calls,
                                                                  text::ToolSyntax syntax,
                                                                  text::GrammarCache& grammars) {
  NUMOE_CHECK(syntax != text::ToolSyntax::kNone);
  NUMOE_CHECK(!calls.empty());
  return FormsCompiler(syntax, grammars).Compile(calls);
}

CallSequence::CallSequence(std::shared_ptr<const CallForms> forms, const text::OutputFormat& format,
                           const CallPolicy& policy)
    : forms_(std::move(forms)),
      marks_(format.marks),
      first_index_(policy.first_index),
      parallel_(policy.parallel) {
  for (const auto& [token, mark] : marks_) {
    if (mark == text::Mark::kCallEnd) call_end_.push_back(token);
    sections_ |= mark == text::Mark::kSectionBegin;
  }
  EnterGap();
}

std::vector<TokenId> CallSequence::FirstMarks() const {
  std::vector<TokenId> tokens;
  for (const auto& [token, mark] : marks_)
    if (mark == (sections_ ? text::Mark::kSectionBegin : text::Mark::kCallBegin)) tokens.push_back(token);
  return tokens;
}

bool CallSequence::Begins(TokenId token) const {
  return std::any_of(marks_.begin(), marks_.end(), [token](const auto& known) {
    return known.first == token &&
           (known.second == text::Mark::kSectionBegin || known.second == text::Mark::kCallBegin);
  });
}

void CallSequence::Allow(text::Mark mark, absl::Span<uint64_t> mask) const {
  for (const auto& [token, known] : marks_)
    if (known == mark) text::grammar::SetBit(mask, token);
}

void CallSequence::AllowEnd(absl::Span<uint64_t> mask) const {
  for (const TokenId token : vocabulary().end_tokens()) text::grammar::SetBit(mask, token);
}

absl::Status CallSequence::AddMask(absl::Span<uint64_t> mask) {
  if (at_ == At::kOver) {
    AllowEnd(mask);
    return absl::OkStatus();
  }
  if (at_ == At::kBody) {
    for (text::GrammarState& body : bodies_) RETURN_IF_ERROR(body.AddMask(mask));
    return absl::OkStatus();
  }
  NUMOE_DCHECK(literal_.has_value() && (at_ == At::kGap || at_ == At::kHead));
  literal_->AddMask(mask);
  if (literal_->Complete().empty()) return absl::OkStatus();
  if (at_ == At::kHead) {
    Allow(text::Mark::kArguments, mask);
    return absl::OkStatus();
  }
  if (calls_ == 0 || parallel_)
    Allow(calls_ == 0 && sections_ && !in_section_ ? text::Mark::kSectionBegin : text::Mark::kCallBegin,
          mask);
  if (calls_ > 0 && in_section_) Allow(text::Mark::kSectionEnd, mask);
  if (calls_ > 0 && !in_section_) AllowEnd(mask);
  return absl::OkStatus();
}

void CallSequence::Accept(TokenId token) {
  if (at_ == At::kOver) return;
  if (at_ == At::kBody) return AcceptInBody(token);
  const auto known =
      std::find_if(marks_.begin(), marks_.end(), [token](const auto& mark) { return mark.first == token; });
  if (known == marks_.end()) {
    if (vocabulary().IsEnd(token)) {
      at_ = At::kOver;
      return;
    }
    const bool allowed = literal_->Accept(token);
    NUMOE_CHECK(allowed) << "token " << token << " was not in the mask";
    return;
  }
  if (known->second == text::Mark::kArguments) return BeginBody();
  if (known->second == text::Mark::kCallBegin) return BeginCall();
  if (known->second == text::Mark::kSectionBegin) {
    in_section_ = true;
    return EnterGap();
  }
  NUMOE_CHECK(known->second == text::Mark::kSectionEnd) << "token " << token << " was not in the mask";
  at_ = At::kOver;
}

void CallSequence::EnterGap() {
  at_ = At::kGap;
  literal_.emplace(vocabulary(), GapTexts(forms_->syntax, calls_ == 0));
}

void CallSequence::BeginCall() {
  NUMOE_DCHECK(at_ == At::kGap && (calls_ == 0 || parallel_));
  if (forms_->heads.empty()) return BeginBody();
  at_ = At::kHead;
  std::vector<std::string> texts;
  for (const CallForms::Head& head : forms_->heads) {
    texts.push_back(head.text);
    if (forms_->syntax == text::ToolSyntax::kKimi) texts.back() += fmt::format(":{}", first_index_ + calls_);
  }
  literal_.emplace(vocabulary(), std::move(texts));
}

void CallSequence::BeginBody() {
  const auto begin = [this](size_t body) { bodies_.emplace_back(forms_->bodies[body], call_end_); };
  bodies_.clear();
  if (forms_->heads.empty()) {
    for (size_t body = 0; body < forms_->bodies.size(); ++body) begin(body);
  } else {
    for (const size_t head : literal_->Complete())
      std::for_each(forms_->heads[head].bodies.begin(), forms_->heads[head].bodies.end(), begin);
  }
  NUMOE_CHECK(!bodies_.empty()) << "the mask contained no body";
  at_ = At::kBody;
}

void CallSequence::AcceptInBody(TokenId token) {
  NUMOE_DCHECK(at_ == At::kBody && !bodies_.empty());
  bodies_.erase(std::remove_if(bodies_.begin(), bodies_.end(),
                               [token](text::GrammarState& body) { return !body.Accept(token); }),
                bodies_.end());
  NUMOE_CHECK(!bodies_.empty()) << "token " << token << " was not in the mask";
  if (!bodies_[0].IsFinished()) return;
  bodies_.clear();
  ++calls_;
  EnterGap();
}

}  // namespace numoe::serving
