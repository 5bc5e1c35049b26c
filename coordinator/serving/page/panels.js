// Opens and closes the list of conversations, and the settings or the live view beside the conversation. On narrow screens
// they cover the conversation, which then takes no input.
import { byId } from "./dom.js";

const LIST_KEY = "numoe.list";

export class Panels {
  #narrow = matchMedia("(max-width: 860px)");
  #overlaid = matchMedia("(max-width: 1100px)");
  #opener = null;

  /** `opened(name)` is called with the open panel: "settings", "live" or "". */
  constructor(opened) {
    this.opened = opened;
    this.panel = "";
    this.list = !this.#narrow.matches && localStorage.getItem(LIST_KEY) !== "closed";
    for (const button of document.querySelectorAll("[data-list]")) button.addEventListener("click", () => this.toggleList());
    for (const button of document.querySelectorAll("[data-panel]")) button.addEventListener("click", () => this.toggle(button.dataset.panel));
    byId("backdrop").addEventListener("click", () => this.dismiss());
    byId("widen").addEventListener("click", () => this.#widen());
    this.#narrow.addEventListener("change", () => {
      this.list = !this.#narrow.matches;
      this.#show();
    });
    this.#overlaid.addEventListener("change", () => this.#show());
    this.#show();
  }

  toggleList() {
    this.list = !this.list;
    if (!this.#narrow.matches) localStorage.setItem(LIST_KEY, this.list ? "open" : "closed");
    this.#show();
    if (this.#narrow.matches) (this.list ? byId("new-chat") : byId("open-list")).focus();
  }

  /** Opens a panel, or closes the one that is open. */
  toggle(name) {
    if (name && name !== this.panel) {
      this.#opener = document.activeElement;
      this.panel = name;
      this.#show();
      byId(`${name}-title`).focus();
    } else {
      this.panel = "";
      this.#show();
      this.#opener?.focus();
    }
  }

  /** Closes the list if it covers the conversation, or else the panel. Returns false if nothing was open. */
  dismiss() {
    if (this.#narrow.matches && this.list) this.toggleList();
    else if (this.panel) this.toggle("");
    else return false;
    return true;
  }

  /** Closes the list after a conversation was chosen, if the list covers it. */
  closeListIfOver() {
    if (!this.#narrow.matches || !this.list) return;
    this.list = false;
    this.#show();
  }

  #widen() {
    const wide = document.body.classList.toggle("wide-panel");
    byId("widen").setAttribute("aria-pressed", String(wide));
  }

  #show() {
    const listOver = this.#narrow.matches && this.list;
    const panelOver = this.#overlaid.matches && this.panel !== "";
    document.body.dataset.openList = this.list ? "open" : "closed";
    byId("sidebar").inert = !this.list;
    byId("main").inert = listOver || panelOver;
    byId("backdrop").hidden = !(listOver || panelOver);
    for (const name of ["settings", "live"]) byId(name).hidden = this.panel !== name;
    for (const button of document.querySelectorAll("header [data-panel]")) button.setAttribute("aria-expanded", String(button.dataset.panel === this.panel));
    for (const button of document.querySelectorAll("[data-list]")) button.setAttribute("aria-expanded", String(this.list));
    this.opened(this.panel);
  }
}
