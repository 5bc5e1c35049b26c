// The message field: it grows with its text; Enter sends, Shift+Enter begins a new line; its button stops an answer.
import { byId, icon } from "./dom.js";

const HEIGHT_MAX = 240;

export class Composer {
  #area = byId("question");
  #button = byId("send");
  #running = false;

  /** send(text) returns whether the text was sent; editLast() is called for the arrow up in an empty field. */
  constructor({ send, stop, editLast }) {
    const submit = () => {
      if (!send(this.#area.value)) return;
      this.#area.value = "";
      this.#fit();
    };
    this.#area.addEventListener("input", () => this.#fit());
    this.#area.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        submit();
      } else if (event.key === "ArrowUp" && this.#area.value === "" && editLast()) {
        event.preventDefault();
      }
    });
    this.#button.addEventListener("click", () => (this.#running ? stop() : submit()));
    byId("composer").addEventListener("submit", (event) => event.preventDefault());
    this.#fit();
  }

  focus() {
    this.#area.focus();
  }

  setRunning(running) {
    this.#running = running;
    const label = running ? "Stop" : "Send";
    if (this.#button.title !== label) {
      this.#button.title = label;
      this.#button.setAttribute("aria-label", label);
      this.#button.replaceChildren(icon(running ? "stop" : "send"));
    }
    this.#button.classList.toggle("stop", running);
    this.#fit();
  }

  #fit() {
    this.#area.style.height = "auto";
    this.#area.style.height = `${Math.min(HEIGHT_MAX, this.#area.scrollHeight)}px`;
    this.#button.disabled = !this.#running && this.#area.value.trim() === "";
  }
}
