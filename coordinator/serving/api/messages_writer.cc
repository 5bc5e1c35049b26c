#include "coordinator/serving/api/messages_writer.h"

#include <utility>

#include "common/base/check.h"
#include "common/json/json_reader.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using Kind = text::AnswerDelta::Kind;

// Proxies close connections that are silent for a minute.
constexpr std::chrono::seconds kPingInterval(10);

// Cached tokens are counted in addition to the input tokens, not as a part of them, as Anthropic's clients
// expect.
ordered_json UsageJson(const Choice& choice, int64_t output_tokens) {
  NUMOE_DCHECK_LE(choice.cached_prompt_tokens(), choice.prompt_tokens());
  return {{"input_tokens", choice.prompt_tokens() - choice.cached_prompt_tokens()},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", choice.cached_prompt_tokens()},
          {"output_tokens", output_tokens}};
}

ordered_json Message(const AnswerContext& context) {
  return {{"id", context.id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", context.model},
          {"content", ordered_json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr}};
}

void SetStop(const Choice& choice, ordered_json& out) {
  const auto* sequence = std::get_if<std::string>(&choice.stop_reason());
  const std::string& reason = choice.finish_reason();
  // A call that tool_choice has named is also tool_use.
  out["stop_reason"] = reason == "length"               ? "max_tokens"
                       : !choice.answer().calls.empty() ? "tool_use"
                       : sequence != nullptr            ? "stop_sequence"
                                                        : "end_turn";
  out["stop_sequence"] = nullptr;
  if (out["stop_reason"] == "stop_sequence") out["stop_sequence"] = *sequence;
}

// A block at its beginning, without its content.
ordered_json NewBlock(const text::AnswerDelta& delta) {
  switch (delta.kind) {
    case Kind::kReasoning:
      return {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}};
    case Kind::kContent:
      return {{"type", "text"}, {"text", ""}};
    case Kind::kCallBegin:
    case Kind::kArguments:
      break;
  }
  return {{"type", "tool_use"}, {"id", delta.id}, {"name", delta.name}, {"input", ordered_json::object()}};
}

ordered_json InputOf(const std::string& arguments) {
  const absl::StatusOr<ordered_json> parsed = ParseBoundedJson(arguments);
  if (parsed.ok() && parsed->is_object()) return *parsed;
  return {{"INVALID_JSON", arguments}};
}

void AddToBlock(const text::AnswerDelta& delta, ordered_json& block) {
  if (delta.kind == Kind::kReasoning) block["thinking"] = delta.text;
  if (delta.kind == Kind::kContent) block["text"] = delta.text;
  if (delta.kind == Kind::kArguments) block["input"] = InputOf(delta.text);
}

ordered_json DeltaJson(const text::AnswerDelta& delta) {
  switch (delta.kind) {
    case Kind::kReasoning:
      return {{"type", "thinking_delta"}, {"thinking", delta.text}};
    case Kind::kContent:
      return {{"type", "text_delta"}, {"text", delta.text}};
    case Kind::kCallBegin:
    case Kind::kArguments:
      break;
  }
  return {{"type", "input_json_delta"}, {"partial_json", delta.text}};
}

// An event whose name is its type.
std::string Event(const ordered_json& json) { return SseEvent(json["type"].get<std::string>(), json); }

}  // namespace

MessagesWriter::MessagesWriter(const GenerationRequest&, AnswerContext context)
    : context_(std::move(context)) {}

std::string MessagesWriter::Begin(const Choice& choice) {
  NUMOE_CHECK(!begun_ && !open_);
  begun_ = true;
  ordered_json message = Message(context_);
  message["usage"] = UsageJson(choice, choice.completion_tokens());
  return Event({{"type", "message_start"}, {"message", message}}) + Event({{"type", "ping"}});
}

std::string MessagesWriter::EndBlock() {
  if (!open_) return "";
  std::string events;
  if (open_ == Kind::kReasoning) {
    events = Event({{"type", "content_block_delta"},
                    {"index", index_},
                    {"delta", {{"type", "signature_delta"}, {"signature", ""}}}});
  }
  open_.reset();
  return events + Event({{"type", "content_block_stop"}, {"index", index_++}});
}

std::string MessagesWriter::Delta(const text::AnswerDelta& delta) {
  std::string events;
  const bool goes_on = open_ == (delta.kind == Kind::kArguments ? Kind::kCallBegin : delta.kind);
  if (!goes_on || delta.kind == Kind::kCallBegin) {
    events = EndBlock();
    events += Event({{"type", "content_block_start"}, {"index", index_}, {"content_block", NewBlock(delta)}});
    open_ = delta.kind;
  }
  if (delta.kind == Kind::kCallBegin) return events;
  NUMOE_DCHECK(open_.has_value());
  return events + Event({{"type", "content_block_delta"}, {"index", index_}, {"delta", DeltaJson(delta)}});
}

std::string MessagesWriter::Events(const Choice& choice, const ChoiceStep& step) {
  const Clock::time_point now = Clock::now();
  std::string events = begun_ ? "" : Begin(choice);
  for (const text::AnswerDelta& delta : step.deltas) events += Delta(delta);
  if (events.empty() && now - last_event_ >= kPingInterval) events = Event({{"type", "ping"}});
  if (!events.empty()) last_event_ = now;
  return events;
}

std::string MessagesWriter::End(const Choices& choices) {
  NUMOE_CHECK_EQ(choices.size(), 1u) << "a message is one answer";
  const Choice& choice = *choices[0];
  std::string events = begun_ ? "" : Begin(choice);
  events += EndBlock();
  ordered_json delta = ordered_json::object();
  SetStop(choice, delta);
  events += Event({{"type", "message_delta"},
                   {"delta", delta},
                   {"usage", UsageJson(choice, choice.completion_tokens())}});
  return events + Event({{"type", "message_stop"}});
}

std::string MessagesWriter::Failure(const net::ApiError& error) {
  return "event: error\ndata: " + error.ToJson(net::ErrorShape::kAnthropic) + "\n\n";
}

std::string MessagesWriter::Whole(const Choices& choices) {
  const Choice& choice = *choices[0];
  ordered_json message = Message(context_);
  for (const text::AnswerDelta& delta : choice.deltas()) {
    if (delta.kind != Kind::kArguments) message["content"].push_back(NewBlock(delta));
    NUMOE_CHECK(!message["content"].empty()) << "the call comes before its arguments";
    AddToBlock(delta, message["content"].back());
  }
  SetStop(choice, message);
  message["usage"] = UsageJson(choice, choice.completion_tokens());
  return DumpJson(message);
}

}  // namespace numoe::serving
