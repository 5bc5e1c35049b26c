#include "coordinator/serving/api/conversation_extras.h"

#include "common/base/check.h"

namespace numoe::serving {

using nlohmann::ordered_json;

void ReadOpenMessage(JsonFields& in, const ordered_json& messages, Conversation& out) {
  if (!messages.is_array() || messages.empty() || !messages.back().is_object()) return;
  const ordered_json& last = messages.back();
  JsonFields fields(last, fmt::format("messages[{}].", messages.size() - 1));
  for (const char* name : {"partial", "prefix"}) {
    bool open = false;
    fields.Bool(name, open);
    if (!open) continue;
    if (last.value("role", ordered_json()) != "assistant")
      fields.Fail(name, "a message of the assistant, because the answer continues it");
    out.continue_final_message = true;
  }
  in.Take(fields);
}

void ReadConversationExtras(JsonFields& in, GenerationRequest& out) {
  if (in.error()) return;
  NUMOE_CHECK(out.conversation.has_value());
  Conversation& c = *out.conversation;
  if (const ordered_json* documents = in.Array("documents"); documents != nullptr && !documents->empty()) {
    for (const ordered_json& document : *documents) {
      if (!document.is_object())
        return in.Fail("documents", "a list of objects, found " + JsonFields::Short(document));
    }
    if (c.template_kwargs.is_null()) c.template_kwargs = ordered_json::object();
    c.template_kwargs["documents"] = *documents;
    c.has_documents = true;
  }
  bool echo = false;
  in.Bool("echo", echo);
  if (!echo || !c.continue_final_message || c.messages.empty()) return;
  const ordered_json content = c.messages.back().value("content", ordered_json());
  if (content.is_string()) out.echo_text = content.get<std::string>();
}

}  // namespace numoe::serving
