#include "coordinator/serving/api/responses_writer.h"

#include <fmt/format.h>

#include <utility>

#include "common/base/check.h"

namespace numoe::serving {
namespace {

using nlohmann::ordered_json;
using Kind = text::AnswerDelta::Kind;

ordered_json Part(Kind kind, const std::string& text) {
  if (kind == Kind::kReasoning) return {{"type", "reasoning_text"}, {"text", text}};
  return {{"type", "output_text"},
          {"text", text},
          {"annotations", ordered_json::array()},
          {"logprobs", ordered_json::array()}};
}

// The id of an item is made from the id of its response and its position in it.
std::string ItemId(Kind kind, const std::string& response_id, size_t index) {
  const size_t prefix = response_id.compare(0, 5, "resp_") == 0 ? 5 : 0;
  const char* name = kind == Kind::kReasoning ? "rs" : kind == Kind::kContent ? "msg" : "fc";
  return fmt::format("{}_{}_{}", name, response_id.substr(prefix), index);
}

ordered_json ItemJson(const text::AnswerDelta& item, const std::string& response_id, size_t index,
                      const char* status) {
  const std::string id = ItemId(item.kind, response_id, index);
  ordered_json content = ordered_json::array();
  if (!item.text.empty()) content.push_back(Part(item.kind, item.text));
  switch (item.kind) {
    case Kind::kReasoning:
      return {{"id", id},
              {"type", "reasoning"},
              {"summary", ordered_json::array()},
              {"content", content},
              {"status", status}};
    case Kind::kContent:
      return {
          {"id", id}, {"type", "message"}, {"role", "assistant"}, {"status", status}, {"content", content}};
    case Kind::kCallBegin:
    case Kind::kArguments:
      break;
  }
  return {{"id", id},          {"type", "function_call"}, {"call_id", item.id},
          {"name", item.name}, {"arguments", item.text},  {"status", status}};
}

ordered_json UsageJson(const Choice& choice) {
  const TokenUsage usage = CountUsage(choice);
  return {{"input_tokens", usage.prompt},
          {"input_tokens_details", {{"cached_tokens", usage.cached}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.completion},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning}}},
          {"total_tokens", usage.prompt + usage.completion}};
}

const char* StatusOf(const Choice& choice) {
  const std::string& reason = choice.finish_reason();
  return reason == "length" ? "incomplete" : reason == "abort" ? "cancelled" : "completed";
}

// The status of the item that was unfinished when the answer ended.
const char* LastItemStatus(const Choice& choice) {
  return StatusOf(choice) == std::string_view("completed") ? "completed" : "incomplete";
}

}  // namespace

ordered_json NewResponse(const AnswerContext& context, const ResponsesFields& fields, const char* status) {
  ordered_json response = {{"id", context.id},
                           {"object", "response"},
                           {"created_at", context.created},
                           {"status", status},
                           {"error", nullptr},
                           {"incomplete_details", nullptr},
                           {"model", context.model},
                           {"output", ordered_json::array()}};
  response.update(fields.repeated);
  response["usage"] = nullptr;
  return response;
}

ResponsesWriter::ResponsesWriter(AnswerContext context, const ResponsesFields& fields, Keep keep)
    : context_(std::move(context)),
      response_(NewResponse(context_, fields, "in_progress")),
      keep_(std::move(keep)) {
  NUMOE_CHECK(keep_ != nullptr && !context_.id.empty()) << "a stored answer has an id";
}

// Numbers the events, so they must be made in the order in which they are sent: never two in one expression.
std::string ResponsesWriter::Event(const char* type, ordered_json fields) {
  ordered_json event = {{"type", type}, {"sequence_number", sequence_++}};
  event.update(fields);
  return SseEvent(type, event);
}

std::string ResponsesWriter::Begin() {
  NUMOE_CHECK(!begun_ && !open_);
  begun_ = true;
  std::string events = Event("response.created", {{"response", response_}});
  events += Event("response.in_progress", {{"response", response_}});
  return events;
}

ordered_json ResponsesWriter::Position() const {
  const size_t index = response_["output"].size();
  ordered_json position = {{"item_id", ItemId(item_.kind, context_.id, index)}, {"output_index", index}};
  if (item_.kind != Kind::kCallBegin) position["content_index"] = 0;
  return position;
}

std::string ResponsesWriter::BeginItem(const text::AnswerDelta& delta) {
  std::string events = EndItem("completed");
  open_ = true;
  item_ = delta;
  item_.text.clear();
  const size_t index = response_["output"].size();
  events += Event("response.output_item.added",
                  {{"output_index", index}, {"item", ItemJson(item_, context_.id, index, "in_progress")}});
  if (item_.kind == Kind::kCallBegin) return events;
  ordered_json part = Position();
  part["part"] = Part(item_.kind, "");
  return events + Event("response.content_part.added", std::move(part));
}

std::string ResponsesWriter::Delta(const text::AnswerDelta& delta) {
  const bool goes_on = open_ && delta.kind != Kind::kCallBegin &&
                       item_.kind == (delta.kind == Kind::kArguments ? Kind::kCallBegin : delta.kind);
  std::string events = goes_on ? "" : BeginItem(delta);
  if (delta.kind == Kind::kCallBegin) return events;
  NUMOE_CHECK(open_) << "BeginItem begins an item";
  item_.text += delta.text;
  ordered_json fields = Position();
  fields["delta"] = delta.text;
  if (delta.kind == Kind::kContent) fields["logprobs"] = ordered_json::array();
  return events + Event(delta.kind == Kind::kReasoning ? "response.reasoning_text.delta"
                        : delta.kind == Kind::kContent ? "response.output_text.delta"
                                                       : "response.function_call_arguments.delta",
                        std::move(fields));
}

std::string ResponsesWriter::EndItem(const char* status) {
  if (!std::exchange(open_, false)) return "";
  std::string events;
  ordered_json fields = Position();
  if (item_.kind == Kind::kCallBegin) {
    fields["name"] = item_.name;
    fields["arguments"] = item_.text;
    events = Event("response.function_call_arguments.done", std::move(fields));
  } else {
    ordered_json part = fields;
    part["part"] = Part(item_.kind, item_.text);
    fields["text"] = item_.text;
    if (item_.kind == Kind::kContent) fields["logprobs"] = ordered_json::array();
    events =
        Event(item_.kind == Kind::kReasoning ? "response.reasoning_text.done" : "response.output_text.done",
              std::move(fields));
    events += Event("response.content_part.done", std::move(part));
  }
  ordered_json& output = response_["output"];
  const size_t index = output.size();
  output.push_back(ItemJson(item_, context_.id, index, status));
  return events + Event("response.output_item.done", {{"output_index", index}, {"item", output.back()}});
}

std::string ResponsesWriter::Events(const Choice&, const ChoiceStep& step) {
  std::string events = step.says_something() && !begun_ ? Begin() : "";
  for (const text::AnswerDelta& delta : step.deltas) events += Delta(delta);
  return events;
}

ordered_json ResponsesWriter::Ended(const Choice& choice) {
  response_["status"] = StatusOf(choice);
  if (choice.finish_reason() == "length") response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
  response_["usage"] = UsageJson(choice);
  keep_(response_);
  return response_;
}

std::string ResponsesWriter::End(const Choices& choices) {
  NUMOE_CHECK_EQ(choices.size(), 1u) << "a response is one answer";
  const Choice& choice = *choices[0];
  std::string events = begun_ ? "" : Begin();
  events += EndItem(LastItemStatus(choice));
  const ordered_json response = Ended(choice);
  return events + Event(response["status"] == "completed" ? "response.completed" : "response.incomplete",
                        {{"response", response}});
}

std::string ResponsesWriter::Failure(const net::ApiError& error) {
  std::string events = begun_ ? "" : Begin();
  events += EndItem("incomplete");
  response_["status"] = "failed";
  response_["error"] = {{"code", "server_error"}, {"message", error.message}};
  keep_(response_);
  return events + Event("response.failed", {{"response", response_}});
}

std::string ResponsesWriter::Whole(const Choices& choices) {
  NUMOE_CHECK_EQ(choices.size(), 1u) << "a response is one answer";
  const Choice& choice = *choices[0];
  std::vector<text::AnswerDelta> items;
  for (const text::AnswerDelta& delta : choice.deltas()) {
    if (delta.kind == Kind::kArguments) {
      NUMOE_CHECK(!items.empty()) << "the call comes before its arguments";
      items.back().text = delta.text;
    } else {
      items.push_back(delta);
    }
  }
  for (size_t i = 0; i < items.size(); ++i)
    response_["output"].push_back(
        ItemJson(items[i], context_.id, i, i + 1 < items.size() ? "completed" : LastItemStatus(choice)));
  return DumpJson(Ended(choice));
}

}  // namespace numoe::serving
