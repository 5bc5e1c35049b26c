// One answer while it is received: adds the chunks of the stream up into a message of the conversation, with its times.
import { withFiles } from "./attachments.js";

/** An empty message of the assistant. */
export function newAnswer() {
  return { role: "assistant", reasoning: "", content: "", calls: [] };
}

export class AnswerBuilder {
  #started = performance.now();
  #first = null;
  #last = null;
  #pieces = 0;

  constructor(message) {
    this.message = message;
  }

  /** Adds a chunk of /v1/chat/completions. */
  add(chunk) {
    const { message } = this;
    if (chunk.usage) message.usage = chunk.usage;
    const choice = chunk.choices?.find(({ index = 0 }) => index === 0);  // a request may ask for several
    if (!choice) return;
    const delta = choice.delta ?? {};
    const reasoning = delta.reasoning_content ?? delta.reasoning ?? "";
    if (reasoning || delta.content || delta.tool_calls) this.#arrived();
    message.reasoning += reasoning;
    if (delta.content && message.reasoning && message.thoughtMs === undefined) this.#thought();
    message.content += delta.content ?? "";
    for (const part of delta.tool_calls ?? []) this.#addCall(part);
    if (choice.finish_reason) message.finish = choice.finish_reason;
  }

  /** The stream has ended, completely or not. */
  end() {
    const { message } = this;
    if (message.reasoning && message.thoughtMs === undefined) this.#thought();
    if (this.#first === null) return;
    message.firstMs = this.#first - this.#started;
    message.streamMs = this.#last - this.#first;
    message.pieces = this.#pieces;
  }

  /** Pieces per second so far, which are about as many as tokens; null before there are two. */
  get rate() {
    return this.#pieces > 1 ? ((this.#pieces - 1) * 1000) / (performance.now() - this.#first) : null;
  }

  #arrived() {
    this.#last = performance.now();
    this.#first ??= this.#last;
    ++this.#pieces;
  }

  #thought() {
    this.message.thoughtMs = performance.now() - (this.#first ?? this.#started);
  }

  #addCall(part) {
    const { calls } = this.message;
    const call = (calls[part.index ?? 0] ??= { id: "", name: "", arguments: "" });
    if (part.id) call.id = part.id;
    if (part.function?.name) call.name = part.function.name;
    call.arguments += part.function?.arguments ?? "";
    if (this.message.reasoning && this.message.thoughtMs === undefined) this.#thought();
  }
}

/** "212 tokens/s", "8.3 tokens/s" */
export function perSecond(rate) {
  return `${rate < 10 ? rate.toFixed(1) : Math.round(rate)} tokens/s`;
}

/** "48 tokens · 210 tokens/s · first after 35 ms · prompt 30, 16 cached", without the parts that are not known. */
export function statsOf(message) {
  const words = [];
  const tokens = message.usage?.completion_tokens;
  if (tokens !== undefined) words.push(`${tokens} ${tokens === 1 ? "token" : "tokens"}`);
  // The rate leaves out the wait for the first token. A stopped answer has no usage: its pieces are counted as tokens.
  const counted = tokens ?? message.pieces ?? 0;
  if (counted > 1 && message.streamMs > 0) {
    const rate = (counted - 1) / (message.streamMs / 1000);
    words.push(`${tokens === undefined ? "about " : ""}${perSecond(rate)}`);
  }
  if (message.firstMs !== undefined) words.push(`first after ${duration(message.firstMs)}`);
  const cached = message.usage?.prompt_tokens_details?.cached_tokens;
  if (message.usage) words.push(`prompt ${message.usage.prompt_tokens}${cached ? `, ${cached} cached` : ""}`);
  if (message.stopped) words.push("stopped");
  if (message.finish === "length") words.push("cut at the token limit");
  return words.join(" · ");
}

/** 80 µs, 35 ms, 1.4 s, 2 min 5 s */
export function duration(ms) {
  if (ms < 1) return ms > 0 ? `${Math.round(ms * 1000)} µs` : "0";
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

/** The messages in the form of the API. Answers that failed before their first word are left out. */
export function apiMessages(messages, system) {
  const out = system ? [{ role: "system", content: system }] : [];
  for (const message of messages) {
    if (message.role === "user") {
      out.push({ role: "user", content: withFiles(message) });
      continue;
    }
    if (!message.content && message.calls.length === 0) continue;
    const said = { role: "assistant", content: message.content };
    if (message.reasoning) said.reasoning_content = message.reasoning;
    if (message.calls.length > 0) {
      said.tool_calls = message.calls.map((call) => ({
        id: call.id,
        type: "function",
        function: { name: call.name, arguments: call.arguments },
      }));
    }
    out.push(said);
    for (const call of message.calls) {
      if (call.result !== undefined) out.push({ role: "tool", tool_call_id: call.id, content: call.result });
    }
  }
  return out;
}
