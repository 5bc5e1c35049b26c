// The settings: sampling, tools, API key, colours. localStorage keeps them; an empty field means the server's default.
import { byId, h } from "./dom.js";

const KEY = "numoe.settings";

// name, label, range and step; `hint` is shown below the field.
const NUMBERS = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05, slider: true, hint: "0 always chooses the most likely token" },
  { name: "top_p", label: "Top p", min: 0, max: 1, step: 0.01, slider: true, hint: "chooses among the most likely tokens whose probabilities add up to this" },
  { name: "min_p", label: "Min p", min: 0, max: 1, step: 0.01, slider: true, hint: "leaves out tokens below this share of the most likely token's probability" },
  { name: "top_k", label: "Top k", min: 0, max: 1000000, step: 1, hint: "chooses among the k most likely tokens; 0: among all" },
  { name: "max_tokens", label: "Max tokens", min: 1, max: 2147483647, step: 1, hint: "the longest answer, including its reasoning" },
  { name: "seed", label: "Seed", min: 0, max: 9007199254740991, step: 1, hint: "the same seed gives the same answer again" },
];
const OBJECTS = [
  { name: "tools", label: "Tools", kind: "array", placeholder: '[{"type": "function", "function": {"name": "weather", ...}}]',
    hint: "JSON list in the format of the API; this page does not execute calls, you enter their results" },
  { name: "extra", label: "More parameters", kind: "object", placeholder: '{"stop": ["\\n\\n"]}', hint: "JSON object that is added to every request" },
];

export class Settings {
  #values = {};
  #changed;

  constructor(changed = () => {}) {
    this.#changed = changed;
    try {
      const stored = JSON.parse(localStorage.getItem(KEY) ?? "{}");
      for (const [name, value] of Object.entries(stored)) this.#values[name] = String(value);
    } catch {
      // Settings that cannot be read are ignored.
    }
    this.#applyTheme();
  }

  get key() {
    return this.#values.key ?? "";
  }

  get system() {
    return this.#values.system?.trim() ?? "";
  }

  /** Returns the fields of a request. Settings that are not valid are left out; the form shows what is wrong. */
  parameters() {
    const out = {};
    for (const { name, kind } of OBJECTS) {
      const value = parsedObject(this.#values[name] ?? "", kind).value;
      if (value === undefined) continue;
      if (kind === "object") Object.assign(out, value);
      else if (value.length > 0) out[name] = value;
    }
    for (const field of NUMBERS) {
      if (numberProblem(field, this.#values[field.name] ?? "") === "" && this.#values[field.name]) {
        out[field.name] = Number(this.#values[field.name]);
      }
    }
    const { thinking } = this.#values;
    if (thinking === "on" || thinking === "off") {
      out.chat_template_kwargs = { ...out.chat_template_kwargs, thinking: thinking === "on", enable_thinking: thinking === "on" };
    }
    return out;
  }

  /** Builds the form into `container`. */
  show(container) {
    const groups = [
      h("fieldset", {}, h("legend", {}, "Instructions"),
        this.#area("system", "System prompt", { rows: 4, placeholder: "The model's own", hint: "what the model is told before the conversation" })),
      h("fieldset", {}, h("legend", {}, "Sampling"),
        NUMBERS.map((field) => this.#number(field)),
        this.#choice("thinking", "Thinking", [["", "As the model does"], ["on", "On"], ["off", "Off"]],
          "whether the model reasons before it answers (chat_template_kwargs: thinking, enable_thinking)")),
      h("fieldset", {}, h("legend", {}, "Tools and more"), OBJECTS.map((field) => this.#object(field))),
      h("fieldset", {}, h("legend", {}, "This browser"),
        this.#text("key", "API key", "kept in this browser and sent only to this server"),
        this.#choice("theme", "Colours", [["", "As the system"], ["light", "Light"], ["dark", "Dark"]])),
    ];
    const reset = h("button", { type: "button", class: "quiet-button", onclick: () => this.#reset(container) }, "Back to the server's defaults");
    container.replaceChildren(...groups, reset);
  }

  #set(name, value) {
    if (value === "") delete this.#values[name];
    else this.#values[name] = value;
    localStorage.setItem(KEY, JSON.stringify(this.#values));
    if (name === "theme") this.#applyTheme();
    this.#changed(name);
  }

  #reset(container) {
    const { key, theme } = this.#values;
    this.#values = { ...(key && { key }), ...(theme && { theme }) };
    this.#set("key", key ?? "");
    this.show(container);
    container.querySelector("textarea").focus();
  }

  #applyTheme() {
    document.documentElement.dataset.theme = this.#values.theme ?? "system";
  }

  #field(name, label, hint, ...inputs) {
    const id = `set-${name}`;
    const note = h("small", { id: `${id}-hint` }, hint ?? "");
    const problem = h("small", { class: "problem", id: `${id}-problem`, role: "alert" });
    return h("div", { class: "field" }, h("label", { for: id }, label), h("div", { class: "inputs" }, ...inputs), hint ? note : null, problem);
  }

  #number(field) {
    const { name, label, min, max, step, slider, hint } = field;
    const id = `set-${name}`;
    const number = h("input", { id, type: "number", min, max, step: slider ? "any" : step, inputmode: slider ? "decimal" : "numeric",
      placeholder: "default", autocomplete: "off", "aria-describedby": `${id}-hint ${id}-problem` });
    number.value = this.#values[name] ?? "";
    const range = slider && h("input", { type: "range", min, max, step, "aria-label": `${label}, slider`, tabindex: -1 });
    const mirror = () => {
      if (!range) return;
      range.classList.toggle("unset", number.value === "");
      range.value = number.value === "" ? (min + max) / 2 : number.value;
    };
    mirror();
    const element = this.#field(name, label, hint, ...(range ? [range, number] : [number]));
    const store = () => {
      mirror();
      this.#problem(element, number, number.validity.badInput ? "a number is expected" : numberProblem(field, number.value));
      this.#set(name, number.value);
    };
    number.addEventListener("input", store);
    range?.addEventListener("input", () => {
      number.value = range.value;
      store();
    });
    return element;
  }

  #object({ name, label, kind, placeholder, hint }) {
    const area = this.#area(name, label, { rows: 3, placeholder, hint, code: true });
    const input = area.querySelector("textarea");
    const check = () => this.#problem(area, input, parsedObject(input.value, kind).problem);
    input.addEventListener("input", check);
    check();
    return area;
  }

  #area(name, label, { rows, placeholder, hint, code }) {
    const id = `set-${name}`;
    const area = h("textarea", { id, rows, placeholder, spellcheck: code ? "false" : null, class: code ? "code-input" : null,
      "aria-describedby": `${id}-hint ${id}-problem` });
    area.value = this.#values[name] ?? "";
    area.addEventListener("input", () => this.#set(name, area.value));
    return this.#field(name, label, hint, area);
  }

  #text(name, label, hint) {
    const id = `set-${name}`;
    const input = h("input", { id, type: "password", autocomplete: "off", placeholder: "none", "aria-describedby": `${id}-hint` });
    input.value = this.#values[name] ?? "";
    input.addEventListener("input", () => this.#set(name, input.value.trim()));
    return this.#field(name, label, hint, input);
  }

  #choice(name, label, options, hint) {
    const select = h("select", { id: `set-${name}` }, options.map(([value, shown]) => h("option", { value }, shown)));
    select.value = this.#values[name] ?? "";
    select.addEventListener("change", () => this.#set(name, select.value));
    return this.#field(name, label, hint, select);
  }

  #problem(element, input, problem) {
    input.toggleAttribute("aria-invalid", problem !== "");
    element.querySelector(".problem").textContent = problem;
  }
}

/** Returns what is wrong with a number; "" if the text is empty or in the field's range. */
function numberProblem({ min, max, slider }, text) {
  if (text === "") return "";
  const value = Number(text);
  if (!Number.isFinite(value) || (!slider && !Number.isInteger(value))) return slider ? "a number is expected" : "a whole number is expected";
  return value < min || value > max ? `from ${min} to ${max}` : "";
}

function parsedObject(text, kind) {
  if (text.trim() === "") return { problem: "" };
  let value;
  try {
    value = JSON.parse(text);
  } catch (failure) {
    return { problem: `not JSON: ${failure.message}` };
  }
  const right = kind === "array" ? Array.isArray(value) : typeof value === "object" && value !== null && !Array.isArray(value);
  return right ? { value, problem: "" } : { problem: `a JSON ${kind} is expected` };
}

/** Moves the focus to the field of the API key. */
export function focusKey() {
  byId("set-key")?.focus();
}
