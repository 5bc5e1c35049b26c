#include "coordinator/clients/terminal/chat_session.h"

#include <fmt/format.h>

#include <boost/asio/signal_set.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <sstream>

#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/net/client/client_limits.h"
#include "coordinator/net/client/model_list.h"
#include "coordinator/net/client/sse_reader.h"

namespace numoe::clients {
namespace {

using Clock = std::chrono::steady_clock;

std::string Trimmed(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(" \t\r\n") + 1 - begin);
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

}  // namespace

const ChatSession::Command ChatSession::kCommands[] = {
    {"help", "", "show this list", &ChatSession::Help},
    {"clear", "", "begin a new conversation with the same system message and settings; /new does the same",
     &ChatSession::Clear},
    {"system", "TEXT", "set the system message; without TEXT show it, - removes it", &ChatSession::System},
    {"set", "NAME VALUE",
     "set a request parameter, as in /set temperature .6; without VALUE unset it, without NAME show all",
     &ChatSession::Set},
    {"model", "NAME", "change the model; without NAME list the server's", &ChatSession::Model},
    {"save", "FILE", "write the conversation to FILE as the JSON body of a request", &ChatSession::Save},
    {"load", "FILE", "continue the conversation in a file that /save wrote", &ChatSession::Load},
    {"retry", "", "ask the last question again", &ChatSession::Retry},
    {"undo", "", "remove the last question and its answer", &ChatSession::Undo},
    {"tokens", "", "show the tokens and the speed of the last answer", &ChatSession::Tokens},
    {"exit", "", "end the program; /quit, /bye and Ctrl-D do the same", &ChatSession::Exit},
    // Other names of these commands, which /help does not list.
    {"new", "", nullptr, &ChatSession::Clear},
    {"reset", "", nullptr, &ChatSession::Clear},
    {"quit", "", nullptr, &ChatSession::Exit},
    {"bye", "", nullptr, &ChatSession::Exit},
};

absl::Status ChatSession::Ask(const std::string& question) {
  const ChatHistory before = history_;
  history_.AddQuestion(question);
  return Continue(before);
}

void ChatSession::Talk() {
  NUMOE_CHECK(terminal_.read != nullptr) << "a conversation needs input";
  while (!leaving_) {
    const std::optional<std::string> line = terminal_.read("> ");
    if (!line) return;
    const std::string text = Trimmed(*line);
    if (text.empty()) continue;
    const bool several_lines = text.find('\n') != std::string::npos;  // a command has one
    if (text[0] == '/' && text.compare(0, 2, "//") != 0 && !several_lines) {
      RunCommand(text.substr(1));
      continue;
    }
    // Ask has shown the error, and the conversation is as it was before.
    Ask(text.compare(0, 2, "//") == 0 ? text.substr(1) : text).IgnoreError();
  }
}

absl::Status ChatSession::Continue(const ChatHistory& before) {
  while (true) {
    net::CollectedAnswer answer;
    absl::Status status = Receive(answer);
    const bool stopped = status.code() == absl::StatusCode::kCancelled;
    if (stopped) {
      answer.calls.clear();  // an incomplete call cannot be answered
      Tell("(stopped)");
    }
    if (!status.ok() && (!stopped || answer.content.empty())) {
      history_ = before;
      if (!stopped) Tell("numoe-chat: " + Message(status));
      return status;
    }
    history_.AddAnswer(answer);
    if (answer.finish_reason == "length")
      Tell("(cut off: the answer has reached the limit of tokens; see /set max_tokens)");
    if (answer.calls.empty() || terminal_.read == nullptr) return status;
    status = ReadToolResults(answer);
    if (!status.ok()) {
      history_ = before;
      return status;
    }
  }
}

absl::Status ChatSession::ReadToolResults(const net::CollectedAnswer& answer) {
  NUMOE_CHECK(terminal_.read != nullptr);
  for (const net::CollectedAnswer::Call& call : answer.calls) {
    const std::optional<std::string> result =
        terminal_.read(fmt::format("result of {}> ", WithoutControls(call.name)));
    if (!result) {
      Tell("(no result: the question is removed from the conversation)");
      return absl::CancelledError("no result was given for a tool call");
    }
    history_.AddToolResult(call, *result);
  }
  return absl::OkStatus();
}

void ChatSession::Show(const net::AnswerChunk& chunk, AnswerView& view, net::CollectedAnswer& answer) {
  answer.Add(chunk);
  if (const std::string text = view.Show(chunk); !text.empty()) terminal_.print(text);
}

absl::Status ChatSession::Receive(net::CollectedAnswer& answer) {
  boost::asio::io_context context(1);
  boost::asio::signal_set interrupt(context, SIGINT);
  AnswerView view(terminal_.style);
  const Clock::time_point start = Clock::now();
  const auto since_start = [&] { return std::chrono::duration<double>(Clock::now() - start).count(); };
  first_s_ = 0;
  int http_status = 0;
  std::string whole;  // the body of a reply that is not a stream
  absl::Status end, failure;
  bool finished = false;
  net::SseReader reader([&](const net::SseEvent& event) {
    if (event.data == "[DONE]") finished = true;
    if (finished || !failure.ok()) return;
    const auto chunk = net::ReadAnswerChunk(event.data);
    failure = chunk.status();
    if (!chunk.ok()) return;
    if (first_s_ == 0 && chunk->says_something()) first_s_ = since_start();
    Show(*chunk, view, answer);
  });
  net::HttpEvents events;
  events.on_head = [&](int status) { http_status = status; };
  events.on_body = [&](std::string_view bytes) -> absl::Status {
    if (http_status == 200 && stream_) {
      RETURN_IF_ERROR(reader.Push(bytes));
      return failure;
    }
    if (whole.size() + bytes.size() > limits::kClientReplyBytesMax)
      return absl::ResourceExhaustedError(
          fmt::format("the reply has more than {} bytes, the limit", limits::kClientReplyBytesMax));
    whole += bytes;
    return absl::OkStatus();
  };
  events.on_end = [&](const absl::Status& status) {
    end = status;
    interrupt.cancel();
  };
  const auto exchange = client_.Send(
      context, {.path = "/v1/chat/completions", .body = history_.Body(stream_)}, std::move(events));
  interrupt.async_wait([&](boost::system::error_code error, int) {
    if (!error) exchange->Cancel();
  });
  context.run();
  if (end.ok() && http_status != 200) end = net::HttpError(http_status, whole);
  if (end.ok() && !stream_) {
    const auto chunk = net::ReadAnswerChunk(whole);
    end = chunk.status();
    if (chunk.ok()) Show(*chunk, view, answer);
  } else if (end.ok() && !finished && answer.finish_reason.empty()) {
    end = absl::UnavailableError("the answer is incomplete: its stream ended without [DONE]");
  }
  if (const std::string text = view.Finish(); !text.empty()) terminal_.print(text);
  whole_s_ = since_start();
  usage_ = answer.usage;
  if (usage_) answered_tokens_ += usage_->completion_tokens;
  return end;
}

void ChatSession::Tell(const std::string& line) { terminal_.tell(WithoutControls(line) + "\n"); }

void ChatSession::RunCommand(const std::string& line) {
  const size_t space = line.find_first_of(" \t");
  const std::string name = line.substr(0, space);
  const std::string argument = space == std::string::npos ? "" : Trimmed(line.substr(space));
  for (const Command& command : kCommands) {
    if (name != command.name) continue;
    if (*command.argument != '\0' || argument.empty()) return (this->*command.run)(argument);
    return Tell(fmt::format("/{} stands alone; //{} sends this line to the model", name, line));
  }
  Tell(fmt::format("/{} is not a command; /help lists the commands, and //{} sends this line to the model",
                   name, line));
}

void ChatSession::Help(const std::string&) {
  for (const Command& command : kCommands) {
    if (command.help == nullptr) continue;
    Tell(fmt::format("  {:<18} {}", fmt::format("/{} {}", command.name, command.argument), command.help));
  }
  Tell("Every other line is sent to the model; begin it with // to send a line that begins with /.");
  Tell("Ctrl-C stops an answer. \"\"\" begins and ends a message of several lines.");
}

void ChatSession::Clear(const std::string&) {
  history_.Reset();
  Tell("(a new conversation begins)");
}

void ChatSession::System(const std::string& text) {
  if (!text.empty()) history_.SetSystem(text == "-" ? "" : text);
  const std::string system = history_.system();
  Tell(system.empty() ? "(no system message)" : "system: " + WithoutControls(system));
}

void ChatSession::Set(const std::string& setting) {
  const size_t end = setting.find_first_of(" \t=");
  if (!setting.empty()) {
    const size_t value = setting.find_first_not_of(" \t=", end);
    const absl::Status status =
        history_.Set(setting.substr(0, end), value == std::string::npos ? "" : setting.substr(value));
    if (!status.ok()) return Tell(Message(status));
  }
  const std::string settings = history_.Settings();
  terminal_.tell(settings.empty() ? "(no parameter is set; the server's defaults apply)\n"
                                  : WithoutControls(settings));
}

void ChatSession::Model(const std::string& name) {
  if (!name.empty()) {
    history_.SetModel(name);
    return Tell("model: " + WithoutControls(name));
  }
  const auto models = net::ListModels(client_);
  if (!models.ok()) return Tell(Message(models.status()));
  for (const net::ModelCard& model : *models) {
    const std::string length = model.max_model_len > 0 ? fmt::format(", {} tokens", model.max_model_len) : "";
    Tell(fmt::format("{} {}{}", model.id == history_.model() ? '*' : ' ', WithoutControls(model.id), length));
  }
}

void ChatSession::Save(const std::string& path) {
  if (path.empty()) return Tell("/save needs the name of a file, as in /save talk.json");
  std::ofstream file(path, std::ios::binary);
  file << history_.Save() << std::flush;
  Tell(file ? fmt::format("saved {} messages to {}", history_.messages(), path)
            : path + ": cannot be written");
}

void ChatSession::Load(const std::string& path) {
  if (path.empty()) return Tell("/load needs the name of a file, as in /load talk.json");
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return Tell(path + ": cannot be opened");
  if (file.tellg() > static_cast<std::streamoff>(limits::kClientReplyBytesMax))
    return Tell(fmt::format("{}: larger than {} bytes", path, limits::kClientReplyBytesMax));
  file.seekg(0);
  std::stringstream text;
  text << file.rdbuf();
  const absl::Status status = history_.Load(text.str());
  Tell(status.ok() ? fmt::format("loaded {} messages", history_.messages()) : path + ": " + Message(status));
}

void ChatSession::Retry(const std::string&) {
  const ChatHistory before = history_;
  if (!history_.Reopen()) return Tell("(there is no question yet)");
  Continue(before).IgnoreError();  // Continue has shown the error
}

void ChatSession::Undo(const std::string&) {
  Tell(history_.Undo() ? fmt::format("(the conversation has {} messages now)", history_.messages())
                       : "(there is no question yet)");
}

void ChatSession::Tokens(const std::string&) {
  if (!usage_) return Tell("(no answer yet, or the server did not report its tokens)");
  NUMOE_CHECK_GT(whole_s_, 0.0);
  const std::string first = first_s_ > 0 ? fmt::format(", the first token after {:.2f} s", first_s_) : "";
  Tell(fmt::format(
      "the prompt had {} tokens ({} of them cached), the answer {} in {:.2f} s: {:.1f} tokens/s{}",
      usage_->prompt_tokens, usage_->cached_tokens, usage_->completion_tokens, whole_s_,
      static_cast<double>(usage_->completion_tokens) / whole_s_, first));
  Tell(fmt::format("the conversation has {} tokens; all answers together have {}",
                   usage_->prompt_tokens + usage_->completion_tokens, answered_tokens_));
}

}  // namespace numoe::clients
