// Text files that go with a message. The browser reads them; the model gets them as text in front of the message.
import { byId, h, iconButton } from "./dom.js";
import { notice } from "./notices.js";

const FILE_BYTES_MAX = 256 * 1024;
const NAME_LENGTH_MAX = 120;

// A fence of a code block that the text does not contain.
function fenceFor(text) {
  const longest = (text.match(/`+/g) ?? []).reduce((length, run) => Math.max(length, run.length), 2);
  return "`".repeat(longest + 1);
}

/** A user's message as the model gets it: each file in a code block below its name, then what the user wrote. */
export function withFiles({ content, files = [] }) {
  const blocks = files.map(({ name, text }) => {
    const fence = fenceFor(text);
    return `File ${name}:\n${fence}\n${text}\n${fence}`;
  });
  return [...blocks, content].join("\n\n");
}

/** Returns {name, text}; throws an Error that names the file and says what is wrong with it. */
export async function readTextFile(file) {
  const name = file.name.replace(/\s+/g, " ").slice(0, NAME_LENGTH_MAX);
  if (file.size > FILE_BYTES_MAX) throw new Error(`${name} has ${Math.ceil(file.size / 1024)} KiB; a file may have at most ${FILE_BYTES_MAX / 1024} KiB`);
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
  } catch {
    text = "\0";
  }
  if (text.includes("\0")) throw new Error(`${name} is not a text file in UTF-8; only text can be attached`);
  return { name, text };
}

/** The files that wait for the next message, with the button that chooses them. Files can also be dropped on the conversation. */
export class Attachments {
  #files = [];
  #list = byId("attached");

  /** `changed` is called after a file was added or removed. */
  constructor(changed) {
    this.changed = changed;
    const input = byId("attach-file");
    byId("attach").addEventListener("click", () => input.click());
    input.addEventListener("change", async () => {
      await this.#add([...input.files]);
      input.value = "";
    });
    const main = byId("main");
    main.addEventListener("dragover", (event) => {
      if (event.dataTransfer.types.includes("Files")) event.preventDefault();  // else the browser would open the file
    });
    main.addEventListener("drop", (event) => {
      if (event.dataTransfer.files.length === 0) return;  // dropped text, which the field takes
      event.preventDefault();
      this.#add([...event.dataTransfer.files]);
    });
  }

  /** Returns the files and removes them from the list. */
  take() {
    const files = this.#files;
    this.#files = [];
    this.#show();
    return files;
  }

  async #add(files) {
    for (const file of files) {
      try {
        this.#files.push(await readTextFile(file));
      } catch (failure) {
        notice(failure.message);
      }
    }
    this.#show();
    this.changed();
  }

  #show() {
    this.#list.hidden = this.#files.length === 0;
    byId("question").placeholder = this.#files.length === 0 ? "Write a message" : "Write what the model should do with it";
    this.#list.replaceChildren(...this.#files.map((file) => h("li", {}, h("span", {}, file.name),
      iconButton("close", `Remove ${file.name}`, () => {
        this.#files = this.#files.filter((other) => other !== file);
        this.#show();
        this.changed();
      }))));
  }
}
