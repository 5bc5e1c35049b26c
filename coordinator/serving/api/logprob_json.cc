#include "coordinator/serving/api/logprob_json.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;

constexpr float kLowest = -9999;

ordered_json Value(float logprob) {
  if (std::isnan(logprob)) return nullptr;
  return std::max(logprob, kLowest);
}

// A part of a character is shown as the replacement character; `bytes` has the real bytes.
std::string TextOf(TokenId token, const text::Tokenizer& tokenizer) {
  return tokenizer.Decode({&token, 1}, /*skip_special=*/false);
}

std::string NameOf(TokenId token, const text::Tokenizer& tokenizer, bool as_ids) {
  return as_ids ? "token_id:" + std::to_string(token) : TextOf(token, tokenizer);
}

ordered_json ChatToken(const execution::TokenLogprob& token, const text::Tokenizer& tokenizer, bool as_ids) {
  ordered_json bytes = ordered_json::array();
  for (const char c : tokenizer.TokenBytes(token.token)) bytes.push_back(static_cast<unsigned char>(c));
  return {
      {"token", NameOf(token.token, tokenizer, as_ids)}, {"logprob", Value(token.logprob)}, {"bytes", bytes}};
}

const char* ListOf(text::AnswerPart part) {
  switch (part) {
    case text::AnswerPart::kReasoning:
      return "reasoning_content";
    case text::AnswerPart::kContent:
      return "content";
    case text::AnswerPart::kCalls:
      return "tool_calls";
  }
  NUMOE_CHECK(false) << static_cast<int>(part);
  return "";
}

// True for every byte except UTF-8's continuation bytes, 10xxxxxx.
bool BeginsCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

ordered_json ChatLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                          const std::vector<text::AnswerPart>& parts, const text::Tokenizer& tokenizer,
                          bool as_ids) {
  NUMOE_CHECK_EQ(tokens.size(), parts.size());
  if (tokens.empty()) return nullptr;
  ordered_json lists = {{"content", ordered_json::array()}, {"refusal", nullptr}};
  for (size_t i = 0; i < tokens.size(); ++i) {
    ordered_json entry = ChatToken(tokens[i].chosen, tokenizer, as_ids);
    entry["top_logprobs"] = ordered_json::array();
    for (const execution::TokenLogprob& other : tokens[i].top)
      entry["top_logprobs"].push_back(ChatToken(other, tokenizer, as_ids));
    lists[ListOf(parts[i])].push_back(std::move(entry));
  }
  return lists;
}

ordered_json TextLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                          const text::Tokenizer& tokenizer, bool as_ids, int& offset) {
  if (tokens.empty()) return nullptr;
  ordered_json offsets = ordered_json::array(), logprobs = ordered_json::array(),
               texts = ordered_json::array(), tops = ordered_json::array();
  for (const execution::TokenLogprobs& token : tokens) {
    const std::string text = TextOf(token.chosen.token, tokenizer);
    offsets.push_back(offset);
    offset += static_cast<int>(std::count_if(text.begin(), text.end(), BeginsCharacter));
    const std::string name = NameOf(token.chosen.token, tokenizer, as_ids);
    texts.push_back(name);
    logprobs.push_back(Value(token.chosen.logprob));
    ordered_json top = ordered_json::object();
    for (const execution::TokenLogprob& other : token.top)
      top[NameOf(other.token, tokenizer, as_ids)] = Value(other.logprob);
    // vLLM and OpenAI list the sampled token as well.
    if (!top.contains(name)) top[name] = Value(token.chosen.logprob);
    tops.push_back(std::isnan(token.chosen.logprob) ? ordered_json(nullptr) : top);
  }
  return {{"text_offset", offsets}, {"token_logprobs", logprobs}, {"tokens", texts}, {"top_logprobs", tops}};
}

ordered_json PromptLogprobs(const std::vector<execution::TokenLogprobs>& tokens,
                            const text::Tokenizer& tokenizer) {
  ordered_json list = ordered_json::array({nullptr});  // the first token has no predecessor
  for (const execution::TokenLogprobs& token : tokens) {
    ordered_json entry = ordered_json::object();
    const auto add = [&](const execution::TokenLogprob& one, int rank) {
      entry[std::to_string(one.token)] = {
          {"logprob", Value(one.logprob)}, {"rank", rank}, {"decoded_token", TextOf(one.token, tokenizer)}};
    };
    add(token.chosen, token.rank);
    for (size_t i = 0; i < token.top.size(); ++i) {
      if (token.top[i].token != token.chosen.token) add(token.top[i], static_cast<int>(i) + 1);
    }
    list.push_back(std::move(entry));
  }
  return list;
}

}  // namespace numoe::serving
