// ChatSession: a conversation with a server on a terminal: questions, streamed answers, /commands.
//
// The session reads and writes only through Terminal, so that a test can act as the person. SIGINT during an
// answer closes the stream and keeps the text so far; an answer that fails, or that is stopped before its
// first text, leaves the conversation as it was before the question. If the model calls tools, the session
// asks the person for the results. For use by one thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "coordinator/clients/terminal/answer_view.h"
#include "coordinator/clients/terminal/chat_history.h"
#include "coordinator/net/client/http_client.h"

namespace numoe::clients {

struct Terminal {
  std::function<void(std::string_view)> print;  // shows the answer
  std::function<void(std::string_view)> tell;   // shows other text, in lines
  std::function<std::optional<std::string>(const std::string& prompt)>
      read;  // nullopt at the end of the input
  ViewStyle style;
};

class ChatSession {
 public:
  /// `client` outlives the session.
  ChatSession(net::HttpClient& client, Terminal terminal, ChatHistory history, bool stream)
      : client_(client), terminal_(std::move(terminal)), history_(std::move(history)), stream_(stream) {}

  /// Asks one question and shows the answer. CANCELLED: stopped by SIGINT.
  absl::Status Ask(const std::string& question);
  /// Reads questions and commands until the input ends or /exit.
  void Talk();

 private:
  struct Command {
    const char* name;
    const char* argument;
    const char* help;  // null for another name of a command, which /help does not list
    void (ChatSession::*run)(const std::string& argument);
  };
  static const Command kCommands[];

  void RunCommand(const std::string& line);
  void Help(const std::string&);
  void Clear(const std::string&);
  void System(const std::string& text);
  void Set(const std::string& setting);
  void Model(const std::string& name);
  void Save(const std::string& path);
  void Load(const std::string& path);
  void Retry(const std::string&);
  void Undo(const std::string&);
  void Tokens(const std::string&);
  void Exit(const std::string&) { leaving_ = true; }

  // Receives answers until the model calls no more tools; on failure the conversation becomes `before` again.
  absl::Status Continue(const ChatHistory& before);
  absl::Status Receive(net::CollectedAnswer& answer);
  absl::Status ReadToolResults(const net::CollectedAnswer& answer);
  void Show(const net::AnswerChunk& chunk, AnswerView& view, net::CollectedAnswer& answer);
  // Prints a line. What a server or a file may have put into it does not control the terminal.
  void Tell(const std::string& line);

  net::HttpClient& client_;
  const Terminal terminal_;
  ChatHistory history_;
  const bool stream_;
  bool leaving_ = false;

  // What /tokens shows about the last answer.
  std::optional<net::ReportedUsage> usage_;
  double first_s_ = 0, whole_s_ = 0;
  int64_t answered_tokens_ = 0;  // of all answers together
};

}  // namespace numoe::clients
