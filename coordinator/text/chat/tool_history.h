// Translates the tool calls and results of a conversation into the form on which a model was trained and that
// its template reads.
//
// Clients send ids of any origin, and results in any order. Kimi's ids are functions.NAME:IDX, numbered over
// the conversation, and its calls get worse after ids of another form. If a template does not print ids,
// results are matched by their order. Works on normalised messages (chat_messages.h). Pure functions.
#pragma once

#include "nlohmann/json.hpp"

namespace numoe::text {

/// Returns the number for the next call, which is at least the count of earlier calls and above every number
/// in their ids.
int NextCallNumber(const nlohmann::ordered_json& messages);

/// Sorts successive results in the order of their calls. Results with unknown ids come last, in their order.
void OrderToolResults(nlohmann::ordered_json& messages);

/// Replaces the ids of calls, and of their results, by functions.NAME:IDX. A result without a known id
/// belongs to the first call that has no result yet. `first_number` is the IDX of the first call; it is not 0
/// if earlier messages were left out.
void RewriteCallIds(nlohmann::ordered_json& messages, int first_number = 0);

/// Replaces null content of a turn that has only calls by "", for templates that search it (Qwen3's).
void FillEmptyContent(nlohmann::ordered_json& messages);

/// Replaces arguments that are objects by JSON text, for templates that join them to text (DeepSeek's).
/// Returns false if there are no such arguments.
bool SpellArguments(nlohmann::ordered_json& messages);

}  // namespace numoe::text
