// The list of conversations: choose, rename, delete (with undo), export and import.
import { byId, h, iconButton } from "./dom.js";
import { notice } from "./notices.js";
import { exportConversations, forgetConversation, importConversations, loadConversations, saveConversation, titleOf } from "./store.js";

export class Sidebar {
  #chat;
  #chosen;
  #list = byId("chats");

  /** `chosen` is called when the user picks a conversation. */
  constructor(chat, chosen) {
    this.#chat = chat;
    this.#chosen = chosen;
    this.conversations = loadConversations();
    byId("export").addEventListener("click", () => this.#export());
    byId("import").addEventListener("click", () => byId("import-file").click());
    byId("import-file").addEventListener("change", (event) => this.#import(event.target));
    // Another tab of this page has changed the conversations.
    addEventListener("storage", (event) => {
      if (!event.key?.startsWith("numoe.chat.") || this.#chat.running) return;
      const current = this.#chat.conversation.id;
      this.conversations = loadConversations().map((found) => (found.id === current ? this.#chat.conversation : found));
      this.show();
    });
  }

  show() {
    const { conversation } = this.#chat;
    if (conversation.messages.length > 0) {
      this.conversations = [conversation, ...this.conversations.filter((other) => other.id !== conversation.id)];
      this.conversations.sort((a, b) => b.updated - a.updated);
    }
    this.#list.replaceChildren(...this.conversations.map((one) => this.#item(one)));
    byId("no-chats").hidden = this.conversations.length > 0;
    byId("export").disabled = this.conversations.length === 0;
  }

  #item(conversation) {
    const title = titleOf(conversation) || "New conversation";
    const current = conversation.id === this.#chat.conversation.id;
    const item = h("li", { class: this.#chat.isRunning(conversation.id) ? "running" : null },
      h("button", { type: "button", class: "chat-title", "aria-current": current ? "true" : null, title, onclick: () => this.#choose(conversation) }, title),
      iconButton("edit", `Rename ${title}`, () => this.#rename(item, conversation)),
      iconButton("trash", `Delete ${title}`, () => this.#delete(conversation)));
    return item;
  }

  #choose(conversation) {
    this.#chat.open(conversation);
    this.#chosen();
  }

  #rename(item, conversation) {
    const input = h("input", { type: "text", "aria-label": "Name of the conversation", maxlength: 120 });
    input.value = titleOf(conversation);
    let done = false;
    const end = (keep) => {
      if (done) return;
      done = true;
      if (keep) {
        conversation.title = input.value.trim();
        saveConversation(conversation);
      }
      this.show();
      this.#list.querySelector("[aria-current]")?.focus();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.stopPropagation();
      end(event.key === "Enter");
    });
    input.addEventListener("blur", () => end(true));
    item.replaceChildren(input);
    input.select();
  }

  #delete(conversation) {
    this.#chat.forget(conversation.id);
    forgetConversation(conversation.id);
    this.conversations = this.conversations.filter((other) => other.id !== conversation.id);
    if (conversation.id === this.#chat.conversation.id) this.#chosen(true);
    this.show();
    (this.#list.querySelector("button") ?? byId("new-chat")).focus();
    notice(`"${titleOf(conversation) || "New conversation"}" is deleted`, {
      label: "Undo",
      run: () => {
        saveConversation(conversation);
        this.conversations.push(conversation);
        this.#choose(conversation);
      },
    });
  }

  #export() {
    const url = URL.createObjectURL(new Blob([exportConversations(this.conversations)], { type: "application/json" }));
    h("a", { href: url, download: `numoe-conversations-${new Date().toISOString().slice(0, 10)}.json` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }

  async #import(input) {
    const [file] = input.files;
    if (!file) return;
    try {
      const found = importConversations(await file.text());
      const full = found.some((conversation) => !saveConversation(conversation));
      const ids = new Set(found.map((conversation) => conversation.id));
      this.conversations = [...found, ...this.conversations.filter((other) => !ids.has(other.id))];
      const same = found.find((conversation) => conversation.id === this.#chat.conversation.id);
      if (same) this.#chat.open(same);
      else this.show();
      notice(full ? "The browser's storage is full: not all conversations were imported. Export or delete some." : `${found.length} conversation${found.length === 1 ? "" : "s"} imported`);
    } catch (failure) {
      notice(failure.message);
    }
    input.value = "";
  }
}
