// One message as an element: a question's bubble with its files, or an answer with its reasoning, calls, error and figures.
import { duration, statsOf } from "./answer.js";
import { h, icon, iconButton } from "./dom.js";
import { renderMarkdown } from "./markdown.js";
import { copy } from "./notices.js";

const COPIED_MS = 1500;
const CALL_NOTE = "This page does not execute tool calls: do what the call asks for yourself, and send the result to the model.";

function copyButton(label, textOf) {
  const button = iconButton("copy", label, async () => {
    if (!await copy(textOf())) return;
    button.replaceChildren(icon("check"));
    setTimeout(() => button.replaceChildren(icon("copy")), COPIED_MS);
  });
  return button;
}

/** A question. `edit(text)` is called with the changed text when the user asks it again. */
export class QuestionView {
  #edit;

  constructor(message, { edit }) {
    this.message = message;
    this.#edit = edit;
    this.element = h("article", { class: "message question", "aria-label": "You" });
    this.#show();
  }

  #show() {
    this.element.replaceChildren(
      ...(this.message.files ?? []).map(({ name, text }) => h("details", { class: "file" },
        h("summary", {}, name), h("pre", { tabindex: 0, "aria-label": `Text of ${name}` }, text))),
      h("div", { class: "bubble" }, this.message.content),
      h("div", { class: "actions" },
        copyButton("Copy message", () => this.message.content),
        iconButton("edit", "Edit message", () => this.beginEdit(), { class: "icon-button edit" })));
  }

  beginEdit() {
    const area = h("textarea", { "aria-label": "Edit message", rows: 2 });
    area.value = this.message.content;
    const fit = () => {
      area.style.height = "auto";
      area.style.height = `${area.scrollHeight + 2}px`;
    };
    const cancel = () => {
      this.#show();
      this.element.querySelector(".edit").focus();
    };
    const send = () => {
      if (!area.value.trim()) return;
      this.#edit(area.value);
      cancel();  // shows the changed text
    };
    area.addEventListener("input", fit);
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        cancel();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    this.element.replaceChildren(h("div", { class: "editor" }, area, h("div", { class: "editor-buttons" },
      h("button", { type: "button", class: "quiet-button", onclick: cancel }, "Cancel"),
      h("button", { type: "button", class: "main-button", onclick: send }, "Ask again"))));
    fit();
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}

/** An answer. `update()` shows the message as it is now; `last`: the answer can be asked for again. */
export class AnswerView {
  #actions;
  #folded = null;  // whether the user has folded the reasoning; null until the user chooses

  constructor(message, { model, regenerate, answerCalls, enterKey }) {
    this.message = message;
    this.#actions = { regenerate, answerCalls, enterKey };
    this.thoughts = h("div", { class: "md" });
    this.summary = h("span");
    this.thinking = h("details", { class: "thinking" },
      h("summary", { onclick: () => { this.#folded = this.thinking.open; } }, icon("chevron"), this.summary), this.thoughts);
    this.content = h("div", { class: "md content" });
    this.waiting = h("div", { class: "waiting", role: "img", "aria-label": "Waiting for the first token" }, h("i"), h("i"), h("i"));
    this.calls = h("div", { class: "calls" });
    this.error = h("div", { class: "error", role: "alert" });
    this.foot = h("footer", { class: "foot" });
    this.element = h("article", { class: "message answer", "aria-label": model || "Answer" },
      this.thinking, this.waiting, this.content, this.calls, this.error, this.foot);
  }

  update({ running, last }) {
    const { message } = this;
    this.element.setAttribute("aria-busy", String(running));
    this.element.classList.toggle("running", running);
    this.waiting.hidden = !running || Boolean(message.reasoning || message.content || message.calls.length);
    this.#showThoughts(running);
    renderMarkdown(this.content, message.content);
    this.content.hidden = message.content === "";
    this.#showCalls(running, last);
    this.#showError(running, last);
    this.#showFoot(running, last);
  }

  #showThoughts(running) {
    const { message } = this;
    this.thinking.hidden = message.reasoning.trim() === "";
    if (this.thinking.hidden) return;
    const thinking = running && message.thoughtMs === undefined;
    this.thinking.classList.toggle("active", thinking);
    this.summary.textContent = thinking ? "Thinking" : message.thoughtMs === undefined ? "Thoughts" : `Thought for ${duration(message.thoughtMs)}`;
    this.thinking.open = this.#folded === null ? thinking : !this.#folded;
    renderMarkdown(this.thoughts, message.reasoning);
    if (thinking) this.thoughts.scrollTop = this.thoughts.scrollHeight;
  }

  #showCalls(running, last) {
    const { calls } = this.message;
    this.calls.hidden = calls.length === 0;
    const state = JSON.stringify([calls, running, last]);
    if (state === this.callsShown) return;
    this.callsShown = state;
    const open = !running && last && calls.some((call) => call.result === undefined);
    this.calls.replaceChildren(...calls.map((call) => callElement(call, open)));
    if (calls.some((call) => call.result === undefined)) this.calls.append(h("p", { class: "call-note" }, CALL_NOTE));
    if (open) {
      this.calls.append(h("button", { type: "button", class: "main-button", onclick: () => this.#sendResults() },
        calls.length === 1 ? "Send the result" : "Send the results"));
    }
  }

  #sendResults() {
    const areas = [...this.calls.querySelectorAll("textarea")];
    const empty = areas.find((area) => area.value.trim() === "");
    if (empty) return empty.focus();
    this.#actions.answerCalls(areas.map((area) => area.value));
  }

  #showError(running, last) {
    const { error } = this.message;
    this.error.hidden = !error;
    if (!error || this.error.childElementCount > 0) return;
    const place = [error.status || null, error.param].filter(Boolean).join(" · ");
    this.error.replaceChildren(icon("warning"), h("div", {}, place ? h("strong", {}, place) : null, h("p", {}, error.message)));
    if (error.status === 401) {
      this.error.append(h("button", { type: "button", class: "quiet-button", onclick: this.#actions.enterKey }, "Enter a key"));
    } else if (last && !running) {
      this.error.append(h("button", { type: "button", class: "quiet-button", onclick: this.#actions.regenerate }, "Try again"));
    }
  }

  #showFoot(running, last) {
    const { message } = this;
    this.foot.hidden = running;
    const state = JSON.stringify([running, last, statsOf(message)]);
    if (running || state === this.footShown) return;
    this.footShown = state;
    this.foot.replaceChildren(h("div", { class: "actions" },
      message.content ? copyButton("Copy answer", () => message.content) : null,
      last && !message.error ? iconButton("again", "Regenerate", this.#actions.regenerate, { class: "icon-button regenerate" }) : null),
    h("span", { class: "stats" }, statsOf(message)));
  }
}

function callElement(call, open) {
  const element = h("section", { class: "call", "aria-label": `Tool call ${call.name}` },
    h("div", { class: "call-head" }, icon("tool"), h("span", {}, "Tool call"), h("code", {}, call.name), h("small", {}, call.id)),
    h("pre", { tabindex: 0, "aria-label": "Arguments" }, h("code", {}, pretty(call.arguments))));
  if (call.result !== undefined) {
    element.append(h("div", { class: "call-result" }, h("small", {}, "Result"), h("pre", { tabindex: 0, "aria-label": "Result" }, h("code", {}, call.result))));
  } else if (open) {
    element.append(h("textarea", { rows: 2, "aria-label": `Result of ${call.name}`, placeholder: "What does the call return?" }));
  }
  return element;
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;  // the rest has not been received yet
  }
}
