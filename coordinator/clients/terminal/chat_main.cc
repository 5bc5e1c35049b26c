// numoe-chat: talks to any OpenAI-compatible server from a terminal or in a pipe.
//
// With a question on the command line or on stdin, it prints only the answer and exits: with code 0 if there
// was an answer, 2 if not, 130 if it was stopped. Otherwise it begins a conversation (/help lists the
// commands).
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

#include "common/base/flags.h"
#include "common/base/limits.h"
#include "common/base/status.h"
#include "coordinator/clients/terminal/chat_session.h"
#include "coordinator/clients/terminal/line_input.h"
#include "coordinator/clients/terminal/start_wait.h"
#include "coordinator/net/client/model_list.h"

namespace numoe::clients {
namespace {

struct ChatFlags {
  std::string url = "http://localhost:8080";
  std::string api_key;
  std::string model;
  std::string system;
  std::string tools;
  std::string temperature;
  std::string max_tokens;
  std::vector<std::string> set;
  bool no_stream = false;
  std::vector<std::string> question;
};

void Print(FILE* file, std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), file);
  std::fflush(file);
}

bool HasColour() {
  const char* no_colour = std::getenv("NO_COLOR");  // no-color.org: set to anything except ""
  const char* terminal = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && (no_colour == nullptr || *no_colour == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

absl::StatusOr<std::string> ReadAll(std::istream& stream, const std::string& name) {
  std::string text;
  char piece[1 << 16];
  while (stream.read(piece, sizeof piece), stream.gcount() > 0) {
    text.append(piece, static_cast<size_t>(stream.gcount()));
    if (text.size() > limits::kHttpBodyBytesMax)
      return absl::InvalidArgumentError(
          fmt::format("{} has more than {} bytes, which no server takes", name, limits::kHttpBodyBytesMax));
  }
  return text;
}

// Returns the words of the command line, with stdin in place of each "-", or stdin alone if there are no
// words and it is not a terminal. Returns "" if there is no question.
absl::StatusOr<std::string> Question(const ChatFlags& f) {
  if (f.question.empty() && isatty(STDIN_FILENO) == 1) return "";
  std::string question;
  const std::vector<std::string> stdin_alone = {"-"};
  for (const std::string& word : f.question.empty() ? stdin_alone : f.question) {
    std::string text = word;
    if (word == "-") {
      ASSIGN_OR_RETURN(text, ReadAll(std::cin, "stdin"));
      while (!text.empty() && text.back() == '\n') text.pop_back();
    }
    question += (question.empty() ? "" : " ") + text;
  }
  if (question.empty())
    return absl::InvalidArgumentError(
        "the question is empty, expected words on the command line or on stdin");
  return question;
}

absl::StatusOr<ChatHistory> Begin(const ChatFlags& f, net::HttpClient& client) {
  ChatHistory history;
  history.SetSystem(f.system);
  if (!f.tools.empty()) {
    std::ifstream file(f.tools);
    if (!file) return absl::NotFoundError(f.tools + ": the file of --tools cannot be opened");
    ASSIGN_OR_RETURN(const std::string text, ReadAll(file, f.tools));
    RETURN_IF_ERROR(Annotate(history.SetTools(text), f.tools));
  }
  RETURN_IF_ERROR(history.Set("temperature", f.temperature));
  RETURN_IF_ERROR(history.Set("max_tokens", f.max_tokens));
  for (const std::string& setting : f.set) {
    const size_t equals = setting.find('=');
    if (equals == 0 || equals == std::string::npos)
      return absl::InvalidArgumentError(fmt::format("--set {}: expected NAME=VALUE", setting));
    RETURN_IF_ERROR(history.Set(setting.substr(0, equals), setting.substr(equals + 1)));
  }
  history.SetModel(f.model);
  if (f.model.empty()) {
    ASSIGN_OR_RETURN(const std::vector<net::ModelCard> models, net::ListModels(client));
    history.SetModel(models[0].id);
  }
  return history;
}

// Shows what a starting server is doing: on a terminal in one line that changes, cut to the width of a narrow
// terminal, and otherwise once. "" removes the line.
void ShowStart(std::string_view doing, bool& shown) {
  constexpr size_t kColumns = 79;
  if (isatty(STDERR_FILENO) == 1) {
    const std::string line = fmt::format("the server is starting: {}", doing);
    Print(stderr, "\r\033[K" + (doing.empty() ? "" : line.substr(0, kColumns)));
  } else if (!doing.empty() && !std::exchange(shown, true)) {
    Print(stderr, fmt::format("numoe-chat: waiting, the server is starting: {}\n", doing));
  }
}

absl::StatusOr<int> Run(const ChatFlags& f) {
  ASSIGN_OR_RETURN(const net::Url url, net::ParseUrl(f.url));
  ASSIGN_OR_RETURN(const std::string question, Question(f));
  ASSIGN_OR_RETURN(const auto client, net::HttpClient::Create(url, f.api_key));
  bool shown = false;
  AwaitStart(*client, [&shown](std::string_view doing) { ShowStart(doing, shown); });
  ASSIGN_OR_RETURN(const ChatHistory history, Begin(f, *client));
  Terminal terminal;
  terminal.print = [](std::string_view text) { Print(stdout, text); };
  terminal.tell = [](std::string_view text) { Print(stderr, text); };
  terminal.style = {.person = isatty(STDOUT_FILENO) == 1, .colour = HasColour()};
  if (!question.empty()) {
    const absl::Status status = ChatSession(*client, terminal, history, !f.no_stream).Ask(question);
    return status.ok() ? 0 : status.code() == absl::StatusCode::kCancelled ? 130 : 2;
  }
  const std::unique_ptr<LineInput> input = LineInput::Create();
  terminal.read = [&](const std::string& prompt) { return input->Read(prompt); };
  terminal.tell(fmt::format("{} at {}: write a message; /help lists the commands, /exit leaves\n",
                            WithoutControls(history.model()), url.ToString()));
  ChatSession(*client, terminal, history, !f.no_stream).Talk();
  return 0;
}

}  // namespace
}  // namespace numoe::clients

int main(int argc, char** argv) {
  numoe::clients::ChatFlags f;
  numoe::Flags flags("numoe-chat",
                     "Asks an OpenAI-compatible server one question, or holds a conversation with it.");
  flags.Add("url", f.url, "URL of the server, http:// or https://");
  flags.Alias("url", {"base-url"});
  flags.Add("api-key", f.api_key, "API key, sent as Authorization: Bearer KEY");
  flags.Add("model", f.model, "Name of the model in the API; default: the first model that the server lists")
      .Variable("");  // NUMOE_MODEL names the daemons' checkpoint.
  flags.Add("system", f.system, "System message at the beginning of the conversation");
  flags.Add("tools", f.tools,
            "File with tools in OpenAI's format (a JSON list); you are asked for the result of each call");
  flags.Add("temperature", f.temperature, "Sampling temperature; default: the server's");
  flags.Add("max-tokens", f.max_tokens, "Maximum number of tokens of an answer; default: the server's limit");
  flags.Add("set", f.set, "Any other parameter of a request, as NAME=VALUE; can be given several times");
  flags.AddSwitch("no-stream", f.no_stream,
                  "Show an answer only when it is complete, instead of while it is generated");
  flags.AddPositional("question", f.question,
                      "Question to ask before exiting; - stands for standard input. Without a question: "
                      "standard input is the question, or if it is a terminal, a conversation begins");
  if (const int code = flags.Parse(argc, argv); code >= 0) return code;
  const absl::StatusOr<int> code = numoe::clients::Run(f);
  if (code.ok()) return *code;
  const char* advice = code.status().code() == absl::StatusCode::kUnavailable
                           ? "; start numoe-coordinator there, or name another server by --url or NUMOE_URL"
                       : code.status().code() == absl::StatusCode::kUnauthenticated
                           ? "; --api-key, or NUMOE_API_KEY, gives the key"
                           : "";
  std::fprintf(stderr, "numoe-chat: %s%s\n",
               numoe::clients::WithoutControls(std::string(code.status().message())).c_str(), advice);
  return 2;
}
