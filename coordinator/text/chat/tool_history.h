// The tool calls and results of a conversation, brought into the form that a model has been trained on and
// its template reads.
//
// Clients send ids of any origin, and results in any order. Kimi knows calls as functions.NAME:IDX, numbered
// over the conversation, and calls badly after ids of another form; templates that print no ids tell results
// apart by their order. Works on normalised messages (chat_messages.h). Pure functions.
#pragma once

#include "nlohmann/json.hpp"

namespace numoe::text {

/// The number for the next call: above the count of calls made and above every number in their ids.
int NextCallNumber(const nlohmann::ordered_json& messages);

/// Results that follow each other come in the order of the calls they answer; unknown ids last, as they
/// stood.
void OrderToolResults(nlohmann::ordered_json& messages);

/// Every call's id becomes functions.NAME:IDX, and so do the ids of the results that answer it. A result
/// without a known id answers the first call that has no answer yet. `first_number`: the IDX of the first
/// call, because earlier messages were left out.
void RewriteCallIds(nlohmann::ordered_json& messages, int first_number = 0);

/// A turn of calls alone has the content "" instead of null, for templates that search it (Qwen3's).
void FillEmptyContent(nlohmann::ordered_json& messages);

/// Arguments that are objects become JSON text, for templates that join them to text (DeepSeek's). False if
/// there are none.
bool SpellArguments(nlohmann::ordered_json& messages);

}  // namespace numoe::text
