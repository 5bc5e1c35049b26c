// ChatHistory: the messages of a conversation and the sampling parameters, as the request that continues it.
//
// The history is one JSON object in the form of /v1/chat/completions - model, messages, tools, sampling
// parameters - so the file that Save writes can be sent to any server as it is, and Load reads any such file,
// or a bare list of messages. A system message, if there is one, comes first. Reasoning is kept for reading,
// and is sent back only with tool calls, after which models continue it. Copyable; for use by one thread.
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

  /// An empty text removes the system message.
  void SetSystem(const std::string& text);
  std::string system() const;

  /// Sets a sampling parameter to a value as typed: a number (".6"), true, false, null, JSON, or else a text.
  /// An empty value restores the server's default. INVALID_ARGUMENT: a name that this program sets itself.
  absl::Status Set(const std::string& name, std::string_view value);
  /// Returns one line for each parameter, as in "temperature = 0.6".
  std::string Settings() const;
  /// Sets the tools, a list in OpenAI's format.
  absl::Status SetTools(std::string_view json);

  void AddQuestion(const std::string& text);
  void AddAnswer(const net::CollectedAnswer& answer);
  void AddToolResult(const net::CollectedAnswer::Call& call, const std::string& result);

  /// Removes everything except the system message.
  void Reset();
  /// Removes the last question and what follows. Returns false if there is no question.
  bool Undo();
  /// Removes what follows the last question, so that it is asked again. Returns false if there is no
  /// question.
  bool Reopen();

  size_t messages() const { return request_["messages"].size(); }
  /// Returns the body of the request.
  std::string Body(bool stream) const;

  std::string Save() const;
  /// Takes the messages and all settings from the file; keeps the model if the file names none.
  absl::Status Load(std::string_view text);

 private:
  // Returns the index of the last question, or messages() if there is none.
  size_t LastQuestion() const;
  void Truncate(size_t messages);

  nlohmann::ordered_json request_ = {{"model", ""}, {"messages", nlohmann::ordered_json::array()}};
};

}  // namespace numoe::clients
