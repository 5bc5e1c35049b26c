// Any tokens of a model: they become the same answer, however they are divided into events, and no mark gets
// into its text.
//
// The first byte chooses format and request; in the other bytes control tokens are written by name or as a
// byte below 32.
#include <algorithm>
#include <string>
#include <string_view>

#include "common/base/check.h"
#include "coordinator/text/tokenizer/utf8.h"
#include "tests/support/byte_tokenizer.h"
#include "tests/support/one_answer.h"

namespace numoe {
namespace {

constexpr size_t kTokensMax = 2000;

struct Model {
  explicit Model(const std::vector<std::string>& control, std::string_view tool_call_parser = "auto")
      : tokenizer(control), format(*text::ChooseOutputFormat(tokenizer, "auto", tool_call_parser)) {}

  const ByteTokenizer tokenizer;
  const text::OutputFormat format;
};

const Model& ModelFor(uint8_t choice) {
  static const Model* const models[] = {new Model(KimiControlTokens()), new Model(DeepSeekControlTokens()),
                                        new Model(QwenControlTokens()), new Model({})};
  static const Model* const coder = new Model(QwenControlTokens(), "qwen3_coder");
  return (choice & 128) != 0 ? *coder : *models[choice % 4];
}

serving::GenerationRequest RequestFor(uint8_t choice) {
  serving::GenerationRequest request = ChatOf();
  if ((choice & 4) != 0) {
    request.conversation->tools = nlohmann::ordered_json::parse(R"([
      {"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {"type": "integer"}}, "required": ["x"]}}},
      {"type": "function", "function": {"name": "g", "parameters": {"properties": {"y": {}}}}}])");
  }
  request.conversation->calls.parallel = (choice & 8) == 0;
  if ((choice & 16) != 0) request.stop = {"END", "\n\n"};
  return request;
}

std::vector<TokenId> TokensOf(std::string_view text, const text::Tokenizer& tokenizer) {
  std::vector<TokenId> tokens = tokenizer.Encode(text, text::Specials::kParse);
  const int control = tokenizer.VocabSize() - 256;
  for (TokenId& token : tokens) {
    if (token < 32 && token < control && token != '\n') token += 256;
  }
  if (tokens.size() > kTokensMax) tokens.resize(kTokensMax);
  return tokens;
}

// Returns the answer of a generation that receives `tokens` in events of `length` tokens. Checks that its
// deltas add up to the answer.
nlohmann::ordered_json Answer(const Model& model, const serving::GenerationRequest& request, uint8_t choice,
                              const std::vector<TokenId>& tokens, size_t length) {
  static const std::vector<TokenId> eos;
  const std::vector<TokenId> prompt =
      model.tokenizer.Encode((choice & 32) != 0 ? "<think>" : "x", text::Specials::kParse);
  OneAnswer answer_of(
      request,
      {.tokenizer = model.tokenizer, .format = model.format, .eos_token_ids = eos, .prompt = prompt});
  const engine::FinishReason finish =
      (choice & 64) != 0 ? engine::FinishReason::kStop : engine::FinishReason::kLength;
  text::ParsedAnswer sum;
  for (size_t at = 0; !answer_of.done(); at += length) {
    const size_t end = std::min(tokens.size(), at + length);
    engine::TokenEvent event{.error = {}};
    if (at < end) event.tokens.assign(tokens.begin() + at, tokens.begin() + end);
    if (at + length >= tokens.size()) event.finish = finish;
    for (const text::AnswerDelta& delta : answer_of.TakeSilently(event)) {
      NUMOE_CHECK_EQ(delta.text.empty(), delta.kind == text::AnswerDelta::Kind::kCallBegin);
      sum.Add(delta);
    }
  }
  const auto answer = nlohmann::ordered_json::parse(answer_of.Whole());
  const nlohmann::ordered_json& choice_json = answer.at("choices")[0];
  const nlohmann::ordered_json& message = choice_json.at("message");
  NUMOE_CHECK_EQ(sum.content,
                 message.at("content").is_null() ? "" : message.at("content").get<std::string>());
  NUMOE_CHECK_EQ(sum.reasoning, message.value("reasoning_content", ""));
  const auto calls = message.value("tool_calls", nlohmann::ordered_json::array());
  NUMOE_CHECK_EQ(sum.calls.size(), calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    NUMOE_CHECK_EQ(sum.calls[i].id, calls[i].at("id").get<std::string>());
    NUMOE_CHECK_EQ(sum.calls[i].name, calls[i].at("function").at("name").get<std::string>());
    NUMOE_CHECK_EQ(sum.calls[i].arguments, calls[i].at("function").at("arguments").get<std::string>());
    NUMOE_CHECK(!sum.calls[i].name.empty() && !sum.calls[i].arguments.empty());
  }
  const std::string reason = choice_json.at("finish_reason");
  NUMOE_CHECK(reason == "length" || (reason == "tool_calls") == !calls.empty()) << reason;
  NUMOE_CHECK(reason != "length" || finish == engine::FinishReason::kLength);
  return {message, reason, answer.at("usage")};
}

// Every mark's name has one '<', so the text may not have more of them than the ordinary tokens.
void CheckText(const nlohmann::ordered_json& message, const std::string& plain) {
  int64_t brackets = 0;
  for (const char* field : {"content", "reasoning_content"}) {
    const auto it = message.find(field);
    if (it == message.end() || it->is_null()) continue;
    const auto text = it->get<std::string>();
    NUMOE_CHECK_EQ(text::ReplaceInvalidUtf8(text), text);
    NUMOE_CHECK_LE(text.size(), 3 * plain.size());  // an invalid byte becomes a replacement character
    brackets += std::count(text.begin(), text.end(), '<');
  }
  NUMOE_CHECK_LE(brackets, std::count(plain.begin(), plain.end(), '<')) << message.dump();
}

// Returns everything that may be text: ordinary tokens, and the marks that may be quoted.
std::string PlainText(const Model& model, const std::vector<TokenId>& tokens) {
  std::string plain;
  for (const TokenId token : tokens) {
    const std::optional<text::Mark> mark = model.format.Find(token);
    const bool quotable =
        mark == text::Mark::kThinkBegin || mark == text::Mark::kThinkEnd || mark == text::Mark::kArguments;
    if ((!mark || quotable) && !model.tokenizer.IsSpecial(token)) plain += model.tokenizer.TokenBytes(token);
  }
  return plain;
}

}  // namespace
}  // namespace numoe

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const numoe::Model& model = numoe::ModelFor(data[0]);
  const numoe::serving::GenerationRequest request = numoe::RequestFor(data[0]);
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<numoe::TokenId> tokens = numoe::TokensOf(text, model.tokenizer);
  const auto whole = numoe::Answer(model, request, data[0], tokens, tokens.size() + 1);
  numoe::CheckText(whole[0], numoe::PlainText(model, tokens));
  for (const size_t length : {size_t{1}, 2 + size % 7}) {
    const auto streamed = numoe::Answer(model, request, data[0], tokens, length);
    NUMOE_CHECK_EQ(streamed.dump(), whole.dump()) << "in events of " << length;
  }
  return 0;
}
