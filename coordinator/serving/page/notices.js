// Short notices above the message field, and texts for screen readers.
import { byId, h } from "./dom.js";

const SHOWN_MS = 6000;

/** Shows `text`, with a button for the action {label, run} if there is one. */
export function notice(text, action) {
  const item = h("div", { class: "notice" }, h("span", {}, text));
  const remove = () => item.remove();
  if (action) {
    item.append(h("button", {
      type: "button",
      class: "text-button",
      onclick: () => {
        remove();
        action.run();
      },
    }, action.label));
  }
  byId("notices").append(item);
  setTimeout(remove, SHOWN_MS);
}

/** Lets screen readers read `text`, which is not shown. */
export function announce(text) {
  byId("announcer").textContent = text;
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    announce("Copied");
    return true;
  } catch {
    // A page that is not in a secure context (http from another host) has no clipboard interface.
    const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    announce(done ? "Copied" : "The browser does not allow copying");
    return done;
  }
}
