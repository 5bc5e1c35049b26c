// ChatHistory: what has been said and how answers are to be sampled, held as the request that continues it.
//
// It is one JSON object in the form of /v1/chat/completions - model, messages, tools, sampling parameters -
// so what Save writes can be sent to any server as it is, and Load takes any such file, or a bare list of
// messages. A system message comes first where there is one. Reasoning is kept for reading, and sent back
// only beside tool calls, where models continue it. Copyable; one thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "coordinator/net/client/collected_answer.h"
#include "nlohmann/json.hpp"

namespace numoe::clients {

class ChatHistory {
 public:
  void SetModel(const std::string& model) { request_["model"] = model; }
  std::string model() const { return request_.value("model", ""); }

  /// Empty: none.
  void SetSystem(const std::string& text);
  std::string system() const;

  /// One sampling parameter, its value as typed: a number (".6"), true, false, null, JSON, or else a text.
  /// Empty: back to the server's own. INVALID_ARGUMENT: a name that this program sets itself.
  absl::Status Set(const std::string& name, std::string_view value);
  /// "temperature = 0.6", a line each.
  std::string Settings() const;
  /// OpenAI's list of tools.
  absl::Status SetTools(std::string_view json);

  void AddQuestion(const std::string& text);
  void AddAnswer(const net::CollectedAnswer& answer);
  void AddToolResult(const net::CollectedAnswer::Call& call, const std::string& result);

  /// Drops everything but the system message.
  void Reset();
  /// Drops the last question and what followed. False: there is none.
  bool Undo();
  /// Drops what followed the last question, so that it is asked again. False: there is none.
  bool Reopen();

  size_t messages() const { return request_["messages"].size(); }
  /// The body to send.
  std::string Body(bool stream) const;

  std::string Save() const;
  /// Messages and all settings become the file's; the model stays where the file names none.
  absl::Status Load(std::string_view text);

 private:
  // The index of the last question, or messages() where there is none.
  size_t LastQuestion() const;
  void Truncate(size_t messages);

  nlohmann::ordered_json request_ = {{"model", ""}, {"messages", nlohmann::ordered_json::array()}};
};

}  // namespace numoe::clients
