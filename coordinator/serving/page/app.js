// The page's beginning: creates its parts, connects them, and handles the keys that work everywhere.
import { fetchHealth, fetchJson } from "./api.js";
import { Attachments } from "./attachments.js";
import { Chat, showSuggestions } from "./chat.js";
import { Composer } from "./composer.js";
import { byId } from "./dom.js";
import { LiveView } from "./live.js";
import { readMachine, showMachine } from "./machine.js";
import { Panels } from "./panels.js";
import { focusKey, Settings } from "./settings.js";
import { Sidebar } from "./sidebar.js";
import { newConversation, titleOf } from "./store.js";

// How often the state of the machine is asked for, while an answer is written and otherwise.
const POLL_RUNNING_MS = 2000;
const POLL_IDLE_MS = 10_000;

let model = "";
let nextPoll = null;
let polls = 0;

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
const composer = new Composer({
  send: (text) => {
    if (!chat.canSend(text)) return false;
    chat.send(text, attachments.take());
    return true;
  },
  stop: () => chat.stop(),
  editLast: () => chat.editLast(),
});
const attachments = new Attachments(() => composer.focus());

function showState() {
  const title = titleOf(chat.conversation);
  byId("title").textContent = title || "New conversation";
  history.replaceState(null, "", title ? `#${chat.conversation.id}` : location.pathname);
  document.title = title ? `${title} · NUMoE` : "NUMoE";
  composer.setRunning(chat.running);
  sidebar.show();
  schedulePoll(0);
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

async function poll() {
  const number = ++polls;
  if (!document.hidden) {
    const health = await fetchHealth();
    const machine = await readMachine({ health, known: model !== "", key: settings.key });
    if (number !== polls) return;  // a later poll has begun
    showHealth(health);
    showMachine({ ...machine, rate: chat.rate });
  }
  schedulePoll(chat.running ? POLL_RUNNING_MS : POLL_IDLE_MS);
}

function schedulePoll(ms) {
  clearTimeout(nextPoll);
  nextPoll = setTimeout(poll, ms);
}

function showHealth({ status, detail }) {
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
showModel().then(() => schedulePoll(0));
composer.focus();
