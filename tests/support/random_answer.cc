#include "tests/support/random_answer.h"

namespace numoe {

const std::vector<SaidFormat>& SaidFormats() {
  static const std::vector<SaidFormat> formats = {
      {"Kimi", KimiControlTokens(),
       "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|>"},
      {"DeepSeek", DeepSeekControlTokens(),
       "<｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{\"x\": 1}\n```<｜tool▁call▁end｜>"},
      {"Qwen", QwenControlTokens(),
       "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>"}};
  return formats;
}

std::string RandomAnswer(const SaidFormat& format, std::mt19937& random) {
  const std::vector<std::string> pieces = {" ",
                                           "\n\n",
                                           "Hello ",
                                           "ü世",
                                           "\xe4\xb8",
                                           "{\"x\": 1}",
                                           "functions.f:0",
                                           "function",
                                           "f\n```json\n",
                                           "\n```",
                                           "}",
                                           "\"",
                                           "{\"name\": \"f\", \"arguments\": ",
                                           "<|tool_call_section_begin|>",
                                           "<|tool_",
                                           "END",
                                           "3",
                                           "<think>hm ",
                                           "</think>",
                                           format.call,
                                           format.call};
  std::string answer = random() % 2 == 0 ? "<think>" : "";
  for (size_t i = random() % 12; i > 0; --i) {
    const size_t choice = random() % (pieces.size() + format.control.size());
    answer += choice < pieces.size() ? pieces[choice] : format.control[choice - pieces.size()];
  }
  return answer;
}

serving::GenerationRequest RandomRequest(std::mt19937& random) {
  serving::GenerationRequest request;
  serving::Conversation& c = request.conversation.emplace();
  c.messages = nlohmann::ordered_json::array();
  if (random() % 8 != 0) c.tools = nlohmann::ordered_json::parse(R"([{"function": {"name": "f"}}])");
  c.calls.parallel = random() % 4 != 0;
  if (random() % 3 == 0) request.stop = {"END", "lo "};
  return request;
}

SaidTwice SayTwice(const SaidFormat& format, const serving::GenerationRequest& request,
                   const WriterFactory& write, std::mt19937& random) {
  const ByteTokenizer tokenizer(format.control);
  const text::OutputFormat output = *text::ChooseOutputFormat(tokenizer, "auto", "auto");
  const std::vector<TokenId> eos, prompt = {1};
  const serving::AnswerContext context{
      .tokenizer = tokenizer, .id = "id-1", .model = "m", .created = 0, .prompts = {prompt}};
  const auto streamed = write(request, context), whole = write(request, context);
  serving::Choices choices;
  choices.push_back(std::make_unique<serving::Choice>(
      request, serving::ChoiceSetup{
                   .tokenizer = tokenizer, .format = output, .eos_token_ids = eos, .prompt = prompt}));
  serving::Choice& choice = *choices[0];
  SaidTwice out{.said = RandomAnswer(format, random), .stream = "", .whole = "", .answer = {}};
  const std::vector<TokenId> tokens = tokenizer.Encode(out.said, text::Specials::kParse);
  for (size_t at = 0; !choice.done();) {
    const size_t length = std::min(tokens.size() - at, 1 + random() % 5);
    const auto begin = tokens.begin() + static_cast<int64_t>(at);
    engine::TokenEvent event{.tokens = {begin, begin + static_cast<int64_t>(length)}, .error = {}};
    at += length;
    if (at == tokens.size())
      event.finish = random() % 2 == 0 ? engine::FinishReason::kStop : engine::FinishReason::kLength;
    const serving::ChoiceStep step = choice.Take(event);
    out.stream += streamed->Events(choice, step);
  }
  out.stream += streamed->End(choices);
  out.whole = whole->Whole(choices);
  out.answer = choice.answer();
  return out;
}

}  // namespace numoe
