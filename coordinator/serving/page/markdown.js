// Shows Markdown as elements: renderMarkdown(container, text) makes the container show the text. Called again with a longer
// text while an answer is received, it changes only the blocks that are different.
import { h, icon } from "./dom.js";
import { highlighted } from "./highlight.js";
import { parseBlocks } from "./markdown_blocks.js";
import { inlineNodes } from "./markdown_inline.js";
import { copy } from "./notices.js";

const COPIED_MS = 1500;
const shownOf = new WeakMap();  // element -> its block's description, container -> its text, to find what has changed

export function renderMarkdown(container, text) {
  if (shownOf.get(container) === text) return;
  shownOf.set(container, text);
  const blocks = parseBlocks(text);
  blocks.forEach((block, i) => {
    const description = JSON.stringify(block);
    const old = container.children[i];
    if (old && shownOf.get(old) === description) return;
    if (old?.matches(".code-block") && block.type === "code") {
      updateCode(old, block);  // changed in place, so that its button stays under the pointer
      shownOf.set(old, description);
      return;
    }
    const element = elementOf(block);
    shownOf.set(element, description);
    if (old) old.replaceWith(element);
    else container.append(element);
  });
  while (container.children.length > blocks.length) container.lastElementChild.remove();
}

function elementOf(block) {
  switch (block.type) {
    case "heading": return h(`h${Math.min(6, block.level + 2)}`, { class: `level-${block.level}` }, inlineNodes(block.text));
    case "rule": return h("hr");
    case "code": return codeElement(block);
    case "quote": return h("blockquote", {}, block.blocks.map(elementOf));
    case "list": return listElement(block);
    case "table": return tableElement(block);
    default: return h("p", {}, inlineNodes(block.text));
  }
}

function listElement(list) {
  const items = list.items.map((item) => {
    const box = item.checked === null ? null
      : h("input", { type: "checkbox", disabled: true, checked: item.checked, "aria-label": item.checked ? "done" : "to do" });
    // The first paragraph is on the line of the list's mark.
    const [first, ...rest] = item.blocks;
    const line = first?.type === "paragraph" ? inlineNodes(first.text) : first ? [elementOf(first)] : [];
    return h("li", { class: box ? "task" : null }, box, line, rest.map(elementOf));
  });
  return list.ordered ? h("ol", { start: list.start === 1 ? null : list.start }, items) : h("ul", {}, items);
}

function tableElement({ align, head, rows }) {
  const row = (tag, cells) => h("tr", {}, cells.map((cell, i) => h(tag, { class: `align-${align[i]}`, scope: tag === "th" ? "col" : null }, inlineNodes(cell))));
  return h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Table" },
    h("table", {}, h("thead", {}, row("th", head)), h("tbody", {}, rows.map((cells) => row("td", cells)))));
}

function codeElement(block) {
  const code = h("code");
  const button = h("button", { type: "button", class: "text-button", "aria-label": "Copy code" }, icon("copy"), h("span", {}, "Copy"));
  button.addEventListener("click", async () => {
    const done = await copy(code.textContent);
    button.lastChild.textContent = done ? "Copied" : "Not allowed";
    setTimeout(() => { button.lastChild.textContent = "Copy"; }, COPIED_MS);
  });
  const element = h("div", { class: "code-block" },
    h("div", { class: "code-head" }, h("span", { class: "language" }), button),
    h("pre", { tabindex: 0, "aria-label": "Code" }, code));
  updateCode(element, block);
  return element;
}

function updateCode(element, block) {
  element.querySelector(".language").textContent = block.language || "text";
  element.querySelector("code").replaceChildren(...highlighted(block.text, block.language));
}
