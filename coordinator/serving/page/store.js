// Conversations in the browser's localStorage, with one key for each, and as a JSON file.
//
// A conversation is {id, title, updated, messages: [{role: "user", content, files: [{name, text}]} | an answer (answer.js)]}.
// Everything that is read is checked, because another version of this page, or a person, may have written it.

const PREFIX = "numoe.chat.";
const FORMAT = "numoe-conversations";

export function newConversation() {
  return { id: crypto.getRandomValues(new Uint32Array(2)).join("-"), title: "", updated: Date.now(), messages: [] };
}

/** Returns "" before the first question. */
export function titleOf(conversation) {
  const asked = conversation.messages.find((message) => message.role === "user");
  return conversation.title || (asked?.content ?? "").trim().split("\n")[0].slice(0, 60);
}

const text = (value) => (typeof value === "string" ? value : "");

function checkedCall(call) {
  const checked = { id: text(call?.id), name: text(call?.name), arguments: text(call?.arguments) };
  if (typeof call?.result === "string") checked.result = call.result;
  return checked;
}

function checkedMessage(message) {
  if (message?.role === "user") {
    const files = Array.isArray(message.files) ? message.files.map((file) => ({ name: text(file?.name), text: text(file?.text) })) : [];
    return { role: "user", content: text(message.content), ...(files.length > 0 && { files }) };
  }
  if (message?.role !== "assistant") return null;
  const checked = { role: "assistant", reasoning: text(message.reasoning), content: text(message.content) };
  checked.calls = Array.isArray(message.calls) ? message.calls.map(checkedCall) : [];
  for (const name of ["thoughtMs", "firstMs", "streamMs", "pieces"]) {
    if (typeof message[name] === "number") checked[name] = message[name];
  }
  if (typeof message.usage?.completion_tokens === "number") checked.usage = message.usage;
  if (message.finish) checked.finish = text(message.finish);
  if (message.error) checked.error = { message: text(message.error.message), status: Number(message.error.status) || 0, param: text(message.error.param) };
  // An answer that neither ended nor failed was being written when the page was closed.
  if (message.stopped || !(checked.finish || checked.error)) checked.stopped = true;
  return checked;
}

/** Returns null if the value is not a conversation. */
export function checkedConversation(value) {
  if (typeof value?.id !== "string" || !Array.isArray(value.messages)) return null;
  return {
    id: value.id,
    title: text(value.title),
    updated: Number(value.updated) || 0,
    messages: value.messages.map(checkedMessage).filter((message) => message !== null),
  };
}

/** Returns all conversations, the one that was used last first. */
export function loadConversations() {
  const found = [];
  for (let i = 0; i < localStorage.length; ++i) {
    const key = localStorage.key(i);
    if (!key.startsWith(PREFIX)) continue;
    try {
      const conversation = checkedConversation(JSON.parse(localStorage.getItem(key)));
      if (conversation) found.push(conversation);
    } catch {
      // Text that is not JSON was not written by this page.
    }
  }
  return found.sort((a, b) => b.updated - a.updated);
}

/** Returns false if the browser's storage is full. */
export function saveConversation(conversation) {
  try {
    localStorage.setItem(PREFIX + conversation.id, JSON.stringify(conversation));
    return true;
  } catch {
    return false;
  }
}

export function forgetConversation(id) {
  localStorage.removeItem(PREFIX + id);
}

export function exportConversations(conversations) {
  return JSON.stringify({ format: FORMAT, version: 1, conversations }, null, 1);
}

/** Returns the conversations of an exported file; throws an Error that says what is wrong with the file. */
export function importConversations(json) {
  let file;
  try {
    file = JSON.parse(json);
  } catch (failure) {
    throw new Error(`The file is not JSON: ${failure.message}`);
  }
  if (file?.format !== FORMAT || !Array.isArray(file.conversations)) {
    throw new Error(`The file has no conversations: expected {"format": "${FORMAT}", "conversations": [...]}`);
  }
  const conversations = file.conversations.map(checkedConversation);
  const wrong = conversations.findIndex((conversation) => conversation === null);
  if (wrong >= 0) throw new Error(`Entry ${wrong + 1} of the file is not a conversation: it has no id or no messages`);
  return conversations;
}
