// The page's beginning: makes its parts, ties them together, and takes the keys that work everywhere.
import { fetchHealth, fetchJson } from "./api.js";
import { Chat, showSuggestions } from "./chat.js";
import { Composer } from "./composer.js";
import { byId } from "./dom.js";
import { LiveView } from "./live.js";
import { Panels } from "./panels.js";
import { focusKey, Settings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { newConversation, titleOf } from "./store.js";

const HEALTH_EVERY_MS = 10_000;

let model = "";

const settings = new Settings((name) => {
  if (name === "theme") live.redraw();
  if (name === "key") showModel();
});
const live = new LiveView(settings);
const panels = new Panels((open) => live.show(open === "live"));
settings.show(byId("settings-body"));

const chat = new Chat({
  settings,
  model: () => model,
  changed: showState,
  enterKey: () => {
    if (panels.panel !== "settings") panels.toggle("settings");
    focusKey();
  },
});
const sidebar = new Sidebar(chat, (fresh) => {
  if (fresh) chat.open(newConversation());
  panels.closeListIfOver();
  composer.focus();
});
const composer = new Composer({ send: (text) => chat.send(text), stop: () => chat.stop(), editLast: () => chat.editLast() });

function showState() {
  const title = titleOf(chat.conversation);
  byId("title").textContent = title || "New conversation";
  history.replaceState(null, "", title ? `#${chat.conversation.id}` : location.pathname);
  document.title = title ? `${title} · NUMoE` : "NUMoE";
  composer.setRunning(chat.running);
  sidebar.show();
}

function newChat() {
  if (chat.conversation.messages.length > 0) chat.open(newConversation());
  panels.closeListIfOver();
  composer.focus();
}

async function showModel() {
  try {
    const list = await fetchJson("/v1/models", settings.key);
    model = list.data[0].id;
    byId("model").textContent = model;
    byId("welcome-title").textContent = `Ask ${model}`;
  } catch (failure) {
    byId("model").textContent = failure.status === 401 ? "API key needed" : "no model";
  }
}

async function showHealth() {
  if (document.hidden) return;
  const { status, detail } = await fetchHealth();
  const badge = byId("health");
  badge.dataset.status = status;
  badge.title = detail ? `${status}: ${detail}` : status;
  byId("health-text").textContent = status;
  byId("health-text").classList.toggle("unseen", status === "ready");
  if (status === "ready" && model === "") showModel();
}

addEventListener("keydown", (event) => {
  if (event.key === "Escape" && !event.defaultPrevented) {
    if (chat.running && !byId("main").inert) chat.stop();
    else if (!panels.dismiss()) return;
    event.preventDefault();
  } else if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    newChat();
  }
});

byId("new-chat").addEventListener("click", newChat);
byId("new-chat-small").addEventListener("click", newChat);
showSuggestions((text) => chat.send(text));
chat.open(sidebar.conversations.find(({ id }) => id === location.hash.slice(1)) ?? newConversation());
showModel();
showHealth();
setInterval(showHealth, HEALTH_EVERY_MS);
composer.focus();
