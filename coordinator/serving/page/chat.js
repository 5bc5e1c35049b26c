// The conversation that is shown, and the ones that wait for an answer: asking, stopping, asking again, editing.
//
// An answer continues while another conversation is shown; `runs` holds the answers in progress by conversation.
import { AnswerBuilder, apiMessages, newAnswer } from "./answer.js";
import { ApiError, streamChat } from "./api.js";
import { byId, h, perFrame } from "./dom.js";
import { AnswerView, QuestionView } from "./message_view.js";
import { announce, notice } from "./notices.js";
import { newConversation, saveConversation } from "./store.js";

const SAVE_EVERY_MS = 2000;  // while an answer is written
const NEAR_END_PX = 80;

export class Chat {
  #settings;
  #model;
  #changed;
  #enterKey;
  #runs = new Map();  // conversation id -> {controller, message, builder}
  #views = [];
  #log = byId("log");
  #list = byId("messages");
  #following = true;  // whether the end of the conversation is kept in view

  constructor({ settings, model, changed, enterKey }) {
    this.#settings = settings;
    this.#model = model;
    this.#changed = changed;
    this.#enterKey = enterKey;
    this.conversation = newConversation();
    this.#log.addEventListener("scroll", () => this.#look());
    new ResizeObserver(() => this.#follow()).observe(this.#log);
    // Reasoning that the reader unfolds does not move the text on the screen.
    new ResizeObserver(() => (this.running ? this.#follow() : this.#look())).observe(this.#list);
    byId("jump").addEventListener("click", () => this.#toEnd("smooth"));
    this.update = perFrame(() => this.#update());
  }

  get running() {
    return this.#runs.has(this.conversation.id);
  }

  isRunning(id) {
    return this.#runs.has(id);
  }

  open(conversation) {
    this.conversation = conversation;
    this.#list.setAttribute("aria-live", "off");  // an old conversation is not read aloud
    this.#following = true;
    this.#rebuild();
    this.#changed();
  }

  canSend(text) {
    return !this.running && text.trim() !== "";
  }

  /** Asks the model; `files`: what attachments.js has read. */
  send(text, files = []) {
    if (!this.canSend(text)) return;
    this.conversation.messages.push({ role: "user", content: text, ...(files.length > 0 && { files }) });
    this.#answer();
  }

  /** Tokens per second of the answer that is written in this conversation, or null. */
  get rate() {
    return this.#runs.get(this.conversation.id)?.builder.rate ?? null;
  }

  stop(id = this.conversation.id) {
    this.#runs.get(id)?.controller.abort();
  }

  /** Ends the answer in progress, if any, and keeps nothing of it. */
  forget(id) {
    this.stop(id);
    this.#runs.delete(id);
  }

  /** Asks for the last answer again. */
  regenerate() {
    if (this.running) return;
    const { messages } = this.conversation;
    if (messages.at(-1)?.role === "assistant") messages.pop();
    if (messages.length > 0) this.#answer();
    this.#log.focus();  // the button, which had the focus, is gone
  }

  editLast() {
    const views = this.#views.filter((view) => view instanceof QuestionView);
    if (this.running || views.length === 0) return false;
    views.at(-1).beginEdit();
    return true;
  }

  #edit(message, text) {
    this.forget(this.conversation.id);
    const { messages } = this.conversation;
    messages.splice(messages.indexOf(message) + 1);
    message.content = text;
    this.#answer();
  }

  #answerCalls(message, results) {
    let next = 0;
    for (const call of message.calls) call.result ??= results[next++];
    this.#answer();
  }

  async #answer() {
    const { conversation } = this;
    const settings = this.#settings;
    const request = { messages: apiMessages(conversation.messages, settings.system), ...settings.parameters() };
    const message = newAnswer();
    const run = { controller: new AbortController(), message, builder: new AnswerBuilder(message) };
    conversation.messages.push(message);
    conversation.updated = Date.now();
    this.#runs.set(conversation.id, run);
    this.#list.setAttribute("aria-live", "polite");
    this.#save(conversation);
    this.#following = true;
    this.#rebuild();
    this.#changed();
    announce("The answer is being written");
    await this.#stream(run, request, conversation);
    if (this.#runs.get(conversation.id) !== run) return;  // the conversation was deleted or edited meanwhile
    this.#runs.delete(conversation.id);
    this.#save(conversation);
    this.#changed();
    if (this.conversation === conversation) this.#update();
    announce(message.error ? "The answer failed" : message.stopped ? "Stopped" : "The answer is complete");
  }

  async #stream(run, request, conversation) {
    const { message, controller, builder } = run;
    let saved = performance.now();
    try {
      for await (const chunk of streamChat(request, { key: this.#settings.key, signal: controller.signal })) {
        builder.add(chunk);
        if (this.conversation === conversation) this.update();
        if (performance.now() - saved < SAVE_EVERY_MS) continue;
        saved = performance.now();
        this.#save(conversation);
      }
    } catch (failure) {
      if (controller.signal.aborted) {
        message.stopped = true;
      } else {
        const known = failure instanceof ApiError;
        message.error = { message: known ? failure.message : `This page failed: ${failure.message}`, status: failure.status ?? 0, param: failure.param ?? "" };
      }
    }
    builder.end();
  }

  #save(conversation) {
    if (!saveConversation(conversation)) notice("The browser's storage is full: this conversation is not kept. Export or delete some.");
  }

  #newView(message) {
    if (message.role === "user") return new QuestionView(message, { edit: (text) => this.#edit(message, text) });
    return new AnswerView(message, {
      model: this.#model(),
      regenerate: () => this.regenerate(),
      answerCalls: (results) => this.#answerCalls(message, results),
      enterKey: this.#enterKey,
    });
  }

  // Elements that exist already stay, because screen readers read what is added.
  #rebuild() {
    const { messages } = this.conversation;
    for (const view of this.#views) {
      if (!messages.includes(view.message)) view.element.remove();
    }
    this.#views = messages.map((message) => this.#views.find((view) => view.message === message) ?? this.#newView(message));
    this.#list.append(...this.#views.map((view) => view.element).filter((element) => !element.isConnected));
    byId("welcome").hidden = this.#views.length > 0;
    this.#update();
  }

  #update() {
    const { messages } = this.conversation;
    const run = this.#runs.get(this.conversation.id);
    for (const view of this.#views) {
      if (view instanceof AnswerView) view.update({ running: run?.message === view.message, last: messages.at(-1) === view.message });
    }
    this.#follow();
  }

  #follow() {
    if (this.#following) this.#toEnd("instant");
    this.#look();
  }

  #look() {
    this.#following = this.#log.scrollHeight - this.#log.scrollTop - this.#log.clientHeight < NEAR_END_PX;
    byId("jump").hidden = this.#following;
  }

  #toEnd(behavior) {
    this.#log.scrollTo({ top: this.#log.scrollHeight, behavior });
  }
}

/** Shows examples of a first message; a click on one calls `ask(text)`. */
export function showSuggestions(ask) {
  const questions = ["What is 84 * 3 / 2?", "What is an expert worker?", "Sort these words: pear, apple, fig"];
  byId("suggestions").replaceChildren(...questions.map((text) => h("button", { type: "button", class: "suggestion", onclick: () => ask(text) }, text)));
}
