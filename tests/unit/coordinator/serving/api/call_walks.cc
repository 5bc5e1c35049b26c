#include "tests/unit/coordinator/serving/api/call_walks.h"

#include <algorithm>
#include <array>

#include "absl/numeric/bits.h"
#include "coordinator/serving/api/openai_request.h"
#include "gtest/gtest.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/unit/coordinator/text/grammar/random_schema.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr size_t kSoftTokens = 80;    // after this many tokens a walk prefers to end
constexpr size_t kHardTokens = 3000;  // a walk of this length is stuck

const std::vector<std::string>& Pieces() {
  static const std::vector<std::string> pieces = {
      "{\"",   "\"}",       "\"}}",      "}}",         "}}}",      "}\n",   "\"}\n",   "}}\n",   "\": ",
      "\":",   ": {",       ": {\"",     "\": {\"",    "\", \"",   "\",",   "{\"name", "name",   "\n{",
      "\n{\"", "arguments", "functions", "functions.", "function", ".get",  "get_",    "get",    "weather",
      ":0",    ":1",        "10",        "12",         "\n\n",     "\n```", "```json", "json\n", "json\n{",
      "```",   "\n",        "null",      "true",       "[]",       "{}",    "{}}\n",   " a",     "the"};
  return pieces;
}

CallModel Finished(std::string name, std::unique_ptr<text::Tokenizer> tokenizer, const std::string& end) {
  CallModel model{
      .name = std::move(name), .tokenizer = std::move(tokenizer), .format = {}, .grammars = nullptr};
  model.format = *text::ChooseOutputFormat(*model.tokenizer, "auto", "auto");
  model.end = *model.tokenizer->SpecialId(end);
  model.grammars =
      std::make_unique<text::GrammarCache>(text::GrammarVocabulary::Build(*model.tokenizer, {&model.end, 1}));
  return model;
}

CallModel Small(const char* name, const std::vector<std::string>& control, const char* end) {
  return Finished(name, std::make_unique<ByteTokenizer>(control, Pieces()), end);
}

std::vector<TokenId> TokensOf(absl::Span<const uint64_t> mask) {
  std::vector<TokenId> tokens;
  for (size_t word = 0; word < mask.size(); ++word) {
    for (uint64_t bits = mask[word]; bits != 0; bits &= bits - 1)
      tokens.push_back(static_cast<TokenId>(word * 64 + static_cast<size_t>(absl::countr_zero(bits))));
  }
  return tokens;
}

bool Has(absl::Span<const uint64_t> mask, TokenId token) {
  return mask.empty() || (mask[static_cast<size_t>(token) / 64] >> (token % 64) & 1) != 0;
}

class Walk {
 public:
  Walk(const CallModel& model, std::mt19937_64& random) : model_(model), random_(random) {
    way_out_ = {model.end};
    for (const text::Mark mark : {text::Mark::kSectionEnd, text::Mark::kCallEnd, text::Mark::kArguments,
                                  text::Mark::kThinkEnd, text::Mark::kSectionBegin, text::Mark::kCallBegin})
      if (const auto token = model.Find(mark)) way_out_.push_back(*token);
    for (const char* text : {"\"", "}", "]"}) way_out_.push_back(Text(text));
    free_left_ = random() % 8;
  }

  TokenId Draw(absl::Span<const uint64_t> mask) {
    ++tokens_;
    if (mask.empty()) return DrawFree();
    if (tokens_ > kSoftTokens || random_() % 8 == 0) {
      // Braces may be part of a string that has to end in another way; the text that random patterns demand
      // helps.
      const size_t wants = random_() % 2 == 0 ? way_out_.size() : way_out_.size() - 2;
      for (size_t i = 0; i < wants; ++i)
        if (Has(mask, way_out_[i])) return way_out_[i];
      const TokenId needed = Text(std::array{"b", "c", ".", "\""}[random_() % 4]);
      if (Has(mask, needed)) return needed;
    }
    const std::vector<TokenId> allowed = TokensOf(mask);
    return allowed.empty() ? -1 : allowed[random_() % allowed.size()];
  }

 private:
  TokenId Text(const char* said) const { return model_.tokenizer->Encode(said, text::Specials::kAsText)[0]; }

  // The model reasons, writes some content, and then calls a tool or ends.
  TokenId DrawFree() {
    if (free_left_ > 0) {
      --free_left_;
      const std::optional<TokenId> think =
          model_.Find(random_() % 2 == 0 ? text::Mark::kThinkBegin : text::Mark::kThinkEnd);
      return think && random_() % 3 == 0 ? *think : Text(random_() % 2 == 0 ? "a" : "{");
    }
    const std::optional<TokenId> section = model_.Find(text::Mark::kSectionBegin),
                                 call = model_.Find(text::Mark::kCallBegin);
    if (random_() % 4 == 0) return model_.end;
    return section && random_() % 4 != 0 ? *section : *call;
  }

  const CallModel& model_;
  std::mt19937_64& random_;
  std::vector<TokenId> way_out_;  // best first
  size_t free_left_ = 0;
  size_t tokens_ = 0;
};

}  // namespace

std::optional<TokenId> CallModel::Find(text::Mark mark) const {
  for (const auto& [token, known] : format.marks)
    if (known == mark) return token;
  return std::nullopt;
}

const std::vector<CallModel>& SmallCallModels() {
  static const auto* const models = [] {
    auto* made = new std::vector<CallModel>();
    made->push_back(Small("Kimi", KimiControlTokens(), "<|im_end|>"));
    made->push_back(Small("DeepSeek", DeepSeekControlTokens(), "<｜end▁of▁sentence｜>"));
    made->push_back(Small("Qwen", QwenControlTokens(), "<|im_end|>"));
    return made;
  }();
  return *models;
}

CallModel LoadCallModel(const std::string& folder, const std::string& end) {
  auto tokenizer = text::Tokenizer::Load(folder);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  return Finished(folder, *std::move(tokenizer), end);
}

ordered_json RandomTools(std::mt19937_64& random) {
  static const char* const kNames[] = {"get",       "get_weather", "get.weather-2", "f",    "function",
                                       "functions", "name",        "时间",          "json", "a:0"};
  ordered_json tools = ordered_json::array();
  for (size_t n = 1 + random() % 4; n > 0; --n) {
    ordered_json function = {{"name", kNames[random() % std::size(kNames)]}};
    for (const ordered_json& other : tools)
      if (other["function"]["name"] == function["name"]) function["name"] = "f" + std::to_string(n);
    if (random() % 3 != 0) function["strict"] = random() % 2 == 0;
    while (random() % 8 != 0) {
      const ordered_json schema = text::RandomSchema(random()).schema();
      if (!schema.is_object() || schema.value("type", ordered_json()) != "object") continue;
      function["parameters"] = schema;
      break;
    }
    tools.push_back({{"type", "function"}, {"function", function}});
  }
  return tools;
}

GenerationRequest ChatRequest(const ordered_json& tools, const ordered_json& choice, bool parallel) {
  const ordered_json body = {{"messages", {{{"role", "user"}, {"content", "hi"}}}},
                             {"tools", tools},
                             {"tool_choice", choice},
                             {"parallel_tool_calls", parallel}};
  auto request = ReadChatRequest(body, {});
  const auto* error = std::get_if<net::ApiError>(&request);
  EXPECT_EQ(error, nullptr) << error->message;
  return error == nullptr ? std::get<GenerationRequest>(std::move(request)) : GenerationRequest();
}

std::unique_ptr<execution::TokenConstraint> Constrained(const CallModel& model,
                                                        const GenerationRequest& request,
                                                        std::optional<text::Mark> prompt_mark) {
  auto constraint =
      ConstrainAnswer(request, {.format = model.format, .prompt_mark = prompt_mark}, *model.grammars);
  const auto* error = std::get_if<net::ApiError>(&constraint);
  EXPECT_EQ(error, nullptr) << error->message << "\n" << request.conversation->tools.dump();
  return error == nullptr ? std::get<0>(std::move(constraint)) : nullptr;
}

std::vector<TokenId> RandomAnswer(const CallModel& model, execution::TokenConstraint& constraint,
                                  std::mt19937_64& random) {
  Walk walk(model, random);
  std::vector<TokenId> said;
  while (said.size() < kHardTokens) {
    const auto mask = constraint.Mask();
    EXPECT_TRUE(mask.ok()) << mask.status();
    const TokenId token = mask.ok() ? walk.Draw(*mask) : -1;
    if (token < 0) {
      ADD_FAILURE() << "no token is allowed after: " << model.tokenizer->Decode(said, false);
      return {};
    }
    constraint.Accept(token);
    said.push_back(token);
    if (token == model.end) return said;
  }
  ADD_FAILURE() << "the walk does not end: " << model.tokenizer->Decode(said, false);
  return {};
}

bool Says(const CallModel& model, execution::TokenConstraint& constraint, std::string_view text,
          std::mt19937_64& random) {
  const auto say = [&](TokenId token) {
    const auto mask = constraint.Mask();
    EXPECT_TRUE(mask.ok()) << mask.status();
    if (!mask.ok() || !Has(*mask, token)) return false;
    constraint.Accept(token);
    return true;
  };
  while (!text.empty()) {
    std::vector<TokenId> fitting;
    for (TokenId token = 0; token < model.tokenizer->VocabSize(); ++token) {
      const std::string_view bytes = model.tokenizer->TokenBytes(token);
      if (bytes.empty() || text.substr(0, bytes.size()) != bytes) continue;
      if (model.format.Find(token)) fitting.clear();
      fitting.push_back(token);
      if (model.format.Find(token)) break;
    }
    const TokenId token = fitting[random() % fitting.size()];
    if (!say(token)) return false;
    text.remove_prefix(model.tokenizer->TokenBytes(token).size());
  }
  return say(model.end);
}

}  // namespace numoe::serving
