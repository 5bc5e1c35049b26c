#include "coordinator/clients/bench/text_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/weights/mapped_file.h"
#include "common/weights/weights_limits.h"
#include "coordinator/clients/bench/bench_texts.h"
#include "coordinator/serving/api/choice.h"
#include "coordinator/serving/api/messages_writer.h"
#include "coordinator/serving/api/openai_writer.h"
#include "coordinator/serving/api/responses_writer.h"
#include "coordinator/text/chat/chat_template.h"
#include "coordinator/text/chat/tool_history.h"
#include "coordinator/text/parsing/output_parser.h"
#include "coordinator/text/tokenizer/tokenizer.h"

namespace numoe::clients {
namespace {

using nlohmann::ordered_json;

constexpr size_t kTextBytes = 4 << 20;
constexpr size_t kRequestBytes = 64 << 10;  // text of one call of the tokeniser: a long prompt
constexpr size_t kAnswerBytes = 256 << 10;
constexpr int kMessages = 200;
constexpr size_t kMessageBytes = 400;
static_assert(kMessages * kMessageBytes < kTextBytes, "every message has a text of its own");
static_assert(kAnswerBytes < kTextBytes && kRequestBytes < kTextBytes);
constexpr double kSecondsPerFigure = 1.5;

// Returns the median time of `work` in seconds over at least five repetitions.
template <typename F>
double MedianSeconds(F work) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point t) {
    return std::chrono::duration<double>(Clock::now() - t).count();
  };
  work();
  std::vector<double> times;
  const Clock::time_point begin = Clock::now();
  while (times.size() < 5 || since(begin) < kSecondsPerFigure) {
    const Clock::time_point start = Clock::now();
    work();
    times.push_back(since(start));
  }
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2);
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

// Divides `text` into pieces of about `bytes`, none of which ends within a character.
std::vector<std::string_view> Pieces(std::string_view text, size_t bytes) {
  NUMOE_CHECK_GT(bytes, size_t{0});
  std::vector<std::string_view> pieces;
  while (!text.empty()) {
    size_t length = std::min(bytes, text.size());
    while (length < text.size() && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) ++length;
    pieces.push_back(text.substr(0, length));
    text.remove_prefix(length);
  }
  return pieces;
}

class TextBench {
 public:
  explicit TextBench(const TextBenchOptions& options) : options_(options) {}

  absl::Status Run() {
    ASSIGN_OR_RETURN(tokenizer_, text::Tokenizer::Load(options_.model));
    std::vector<std::pair<std::string, std::string>> texts;
    for (const std::string& path : options_.texts) {
      ASSIGN_OR_RETURN(std::string text, ReadTextFile(path, limits::kJsonFileBytesMax));
      texts.emplace_back(std::filesystem::path(path).stem().string(), std::move(text));
    }
    if (texts.empty()) texts = {{"english", english_}, {"chinese", chinese_}};
    for (const auto& [name, text] : texts) {
      RETURN_IF_ERROR(Save(options_.save_texts, name + ".txt", text));
      RETURN_IF_ERROR(Tokenise(name, text));
    }
    RETURN_IF_ERROR(RenderTemplates());
    return ReadAnswers();
  }

 private:
  static absl::Status Save(const std::string& folder, const std::string& name, std::string_view text) {
    if (folder.empty()) return absl::OkStatus();
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    if ((std::ofstream(path) << text).flush()) return absl::OkStatus();
    return absl::UnavailableError(fmt::format("{}: cannot be written", path.string()));
  }

  absl::Status Tokenise(const std::string& name, const std::string& text) const {
    const std::vector<std::string_view> pieces = Pieces(text, kRequestBytes);
    std::vector<std::vector<TokenId>> tokens(pieces.size());
    const double seconds = MedianSeconds([&] {
      for (size_t i = 0; i < pieces.size(); ++i)
        tokens[i] = tokenizer_->Encode(pieces[i], text::Specials::kAsText);
    });
    size_t count = 0;
    std::string ids;
    for (const std::vector<TokenId>& piece : tokens) {
      count += piece.size();
      if (!options_.save_tokens.empty()) ids += fmt::format("{}\n", fmt::join(piece, " "));
    }
    Report("tokenise", name, "tokens", count, "mb_per_s", static_cast<double>(text.size()) / seconds / 1e6);
    return Save(options_.save_tokens, name + ".ids", ids);
  }

  // A conversation with tool calls and reasoning; the caller chooses the form of arguments that the template
  // reads.
  ordered_json LongConversation() const {
    ordered_json messages = ordered_json::array();
    const std::vector<std::string_view> texts = Pieces(english_, kMessageBytes);
    NUMOE_CHECK_GE(texts.size(), size_t{kMessages} + 4) << "the last round needs texts as well";
    messages.push_back({{"role", "system"}, {"content", texts[0]}});
    while (messages.size() < kMessages) {
      const size_t n = messages.size();
      const std::string id = fmt::format("functions.search:{}", n / 4);
      messages.push_back({{"role", "user"}, {"content", texts[n]}});
      messages.push_back({{"role", "assistant"},
                          {"content", ""},
                          {"reasoning_content", texts[n + 1]},
                          {"tool_calls",
                           {{{"id", id},
                             {"type", "function"},
                             {"function",
                              {{"name", "search"},
                               {"arguments", {{"query", texts[n + 1].substr(0, 60)}, {"limit", 5}}}}}}}}});
      messages.push_back(
          {{"role", "tool"}, {"tool_call_id", id}, {"name", "search"}, {"content", texts[n + 2]}});
      messages.push_back({{"role", "assistant"}, {"content", texts[n + 3]}});
    }
    while (messages.size() > kMessages) messages.erase(messages.size() - 1);
    NUMOE_CHECK_EQ(messages.size(), size_t{kMessages});
    return messages;
  }

  absl::Status RenderTemplates() {
    if (options_.templates.empty()) {
      const auto own = text::ChatTemplate::Load(options_.model);
      if (absl::IsNotFound(own.status())) return absl::OkStatus();
      RETURN_IF_ERROR(own.status());
      return Render("own", **own);
    }
    for (const std::string& path : options_.templates) {
      ASSIGN_OR_RETURN(const std::string source, ReadTextFile(path, limits::kJsonFileBytesMax));
      ASSIGN_OR_RETURN(const auto chat_template, text::ChatTemplate::Parse(source, path));
      RETURN_IF_ERROR(Render(std::filesystem::path(path).stem().string(), *chat_template));
    }
    return absl::OkStatus();
  }

  absl::Status Render(const std::string& name, const text::ChatTemplate& chat_template) {
    text::ChatTemplateInput input{.messages = LongConversation(),
                                  .tools = ordered_json::parse(R"([{"type": "function", "function": {
                                "name": "search", "description": "Finds documents", "parameters": {
                                "type": "object", "required": ["query"], "properties": {
                                "query": {"type": "string"}, "limit": {"type": "integer"}}}}}])"),
                                  .kwargs = nullptr,
                                  .role_tokens = tokenizer_->role_tokens()};
    if (!chat_template.Render(input).ok()) text::SpellArguments(input.messages);
    RETURN_IF_ERROR(chat_template.Render(input).status());
    size_t bytes = 0;
    const double seconds = MedianSeconds([&] {
      bytes = 0;
      const auto segments = chat_template.Render(input);
      for (const TextSegment& segment : *segments) bytes += segment.text.size();
    });
    Report("render", name, "bytes", bytes, "us", seconds * 1e6);
    return absl::OkStatus();
  }

  // An answer of the model: reasoning, content, and one call, whose arguments are a third of the answer.
  absl::Status ReadAnswers() const {
    ASSIGN_OR_RETURN(const text::OutputFormat format, text::ChooseOutputFormat(*tokenizer_, "auto", "auto"));
    for (const auto& [language, text] :
         {std::pair<const char*, std::string_view>{"english", english_}, {"chinese", chinese_}}) {
      const std::vector<TokenId> tokens = AnswerTokens(format, Pieces(text, kAnswerBytes / 3));
      Parse(language, format, tokens);
      const auto say = [&, name = language](const char* dialect, auto make_writer) {
        Say(fmt::format("{} {}", dialect, name), format, tokens, make_writer);
      };
      say("chat", [](const auto& request, auto context) { return serving::ChatWriter(request, context); });
      say("completions",
          [](const auto& request, auto context) { return serving::TextWriter(request, context); });
      say("messages",
          [](const auto& request, auto context) { return serving::MessagesWriter(request, context); });
      say("responses", [](const auto&, auto context) {
        return serving::ResponsesWriter(context, serving::ResponsesFields(), [](const ordered_json&) {});
      });
    }
    return absl::OkStatus();
  }

  void Parse(const char* language, const text::OutputFormat& format,
             const std::vector<TokenId>& tokens) const {
    size_t bytes = 0;
    const double seconds = MedianSeconds([&] {
      text::OutputParser parser(*tokenizer_, format, {.calls = true, .tools = {}, .prompt_mark = {}});
      std::vector<text::AnswerDelta> deltas;
      bytes = 0;
      const auto take = [&] {
        for (const text::AnswerDelta& delta : deltas) bytes += delta.text.size();
        deltas.clear();
      };
      for (const TokenId token : tokens) {
        parser.Push(token, deltas);
        take();
      }
      parser.Finish(deltas);
      take();
    });
    NUMOE_CHECK_GT(bytes, kAnswerBytes / 2) << "the answer was not parsed completely";
    Report("parse", language, "tokens", tokens.size(), "us",
           seconds * 1e6 / static_cast<double>(tokens.size()));
  }

  // Everything that happens to a token after the engine has sampled it: it is detokenised, parsed, searched
  // for stop strings, kept for the whole answer, and written as an event.
  template <typename MakeWriter>
  void Say(const std::string& of, const text::OutputFormat& format, const std::vector<TokenId>& tokens,
           MakeWriter make_writer) const {
    serving::GenerationRequest request{.stop = {"\n\nUser:"}, .stream = true, .include_usage = true};
    request.conversation = serving::Conversation{.tools = ordered_json::array()};
    const std::vector<TokenId> no_tokens;
    size_t bytes = 0;
    const double seconds = MedianSeconds([&] {
      serving::Choice choice(
          request, {.tokenizer = *tokenizer_, .format = format, .eos_token_ids = no_tokens, .prompt = {}});
      auto writer =
          make_writer(request, serving::AnswerContext{.tokenizer = *tokenizer_,
                                                      .id = "chatcmpl-0123456789abcdef0123456789abcdef",
                                                      .model = "Kimi-K2-Instruct",
                                                      .created = 1'700'000'000,
                                                      .prompts = {no_tokens}});
      bytes = 0;
      engine::TokenEvent event{.tokens = {0}, .error = {}};
      for (const TokenId token : tokens) {
        event.tokens[0] = token;
        bytes += writer.Events(choice, choice.Take(event)).size();
      }
    });
    NUMOE_CHECK_GT(bytes, kAnswerBytes) << "the answer was not written completely";
    Report("say", of, "tokens", tokens.size(), "us", seconds * 1e6 / static_cast<double>(tokens.size()));
  }

  std::vector<TokenId> AnswerTokens(const text::OutputFormat& format,
                                    const std::vector<std::string_view>& parts) const {
    NUMOE_CHECK_GE(parts.size(), size_t{3}) << "reasoning, content and arguments";
    std::vector<TokenId> tokens;
    const auto mark = [&](text::Mark wanted) {
      for (const auto& [id, of_id] : format.marks) {
        if (of_id == wanted) return tokens.push_back(id);
      }
    };
    const auto text = [&](std::string_view part) {
      const std::vector<TokenId> ids = tokenizer_->Encode(part, text::Specials::kAsText);
      tokens.insert(tokens.end(), ids.begin(), ids.end());
    };
    mark(text::Mark::kThinkBegin);
    text(parts[0]);
    mark(text::Mark::kThinkEnd);
    text(parts[1]);
    const std::string arguments = ordered_json{{"text", parts[2]}}.dump();
    if (format.tools == text::ToolSyntax::kNone) {
      text(arguments);
      return tokens;
    }
    mark(text::Mark::kSectionBegin);
    mark(text::Mark::kCallBegin);
    if (format.tools == text::ToolSyntax::kHermes) {
      text(fmt::format("\n{{\"name\": \"write\", \"arguments\": {}}}\n", arguments));
    } else {
      text(format.tools == text::ToolSyntax::kKimi ? "functions.write:0" : "write");
      mark(text::Mark::kArguments);
      text(arguments);
    }
    mark(text::Mark::kCallEnd);
    mark(text::Mark::kSectionEnd);
    return tokens;
  }

  void Report(const char* what, const std::string& of, const char* size_name, size_t size, const char* unit,
              double value) const {
    const std::string line =
        options_.json
            ? fmt::format(R"({{"what": "{}", "of": "{}", "{}": {}, "{}": {:.3f}}})", what, of, size_name,
                          size, unit, value)
            : fmt::format("{:10} {:24} {:9} {:7} {:12.3f} {}", what, of, size, size_name, value, unit);
    std::puts(line.c_str());
    std::fflush(stdout);
  }

  const TextBenchOptions& options_;
  std::unique_ptr<text::Tokenizer> tokenizer_;
  const std::string english_ = EnglishText(kTextBytes);
  const std::string chinese_ = ChineseText(kTextBytes);
};

}  // namespace

int RunTextBench(const TextBenchOptions& options) {
  const absl::Status status = TextBench(options).Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "numoe-bench: %s\n", std::string(status.message()).c_str());
  return 2;
}

}  // namespace numoe::clients
