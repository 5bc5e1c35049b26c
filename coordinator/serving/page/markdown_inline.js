// Reads the marks within a line of Markdown: code, strong, emphasis, strikethrough, links, breaks. Returns nodes.
//
// Text becomes text nodes, and an address becomes a link only if it is http, https or mailto. Images become links,
// because this page loads nothing from other servers. Formulas are not changed, so that _ and * in them are not read as marks.
import { h } from "./dom.js";

const DEPTH_MAX = 12;
const URL_IN_TEXT = /^https?:\/\/[^\s<>"'`]+/;
const FORMULAS = [["$$", "$$"], ["\\(", "\\)"], ["\\[", "\\]"]];
const PUNCTUATION = /[!-/:-@[-`{-~]/;

/** Returns the address if the page may link to it, otherwise null. */
export function safeAddress(text) {
  try {
    const url = new URL(text);
    return ["http:", "https:", "mailto:"].includes(url.protocol) ? url.href : null;
  } catch {
    return null;
  }
}

export function inlineNodes(text, depth = 0) {
  return new InlineReader(text, depth).read();
}

class InlineReader {
  #nodes = [];
  #plain = "";
  #at = 0;
  #hopeless = new Set();  // marks that nothing closes in the rest of the text, so that it is searched only once

  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
  }

  read() {
    while (this.#at < this.text.length) {
      if (!this.#mark()) this.#plain += this.text[this.#at++];
    }
    this.#flush();
    return this.#nodes;
  }

  #flush() {
    if (this.#plain) this.#nodes.push(document.createTextNode(this.#plain));
    this.#plain = "";
  }

  #push(node, end) {
    this.#flush();
    this.#nodes.push(node);
    this.#at = end;
    return true;
  }

  #mark() {
    switch (this.text[this.#at]) {
      case "\\": return this.#formula() || this.#escape();
      case "`": return this.#code();
      case "*": case "_": case "~": return this.#emphasis();
      case "!": case "[": return this.#link();
      case "<": return this.#autolink();
      case "h": return this.#address();
      case "$": return this.#formula() || this.#dollars();
      case "\n": return this.#lineEnd();
      default: return false;
    }
  }

  #find(mark, from) {
    if (this.#hopeless.has(mark)) return -1;
    const found = this.text.indexOf(mark, from);
    if (found < 0) this.#hopeless.add(mark);
    return found;
  }

  #escape() {
    const next = this.text[this.#at + 1];
    if (next === "\n") return this.#push(h("br"), this.#at + 2);
    if (next === undefined || !PUNCTUATION.test(next)) return false;
    this.#plain += next;
    this.#at += 2;
    return true;
  }

  #code() {
    const run = /^`+/.exec(this.text.slice(this.#at, this.#at + 16))[0];
    const from = this.#at + run.length;
    let end = this.#find(run, from);
    while (end >= 0 && (this.text[end - 1] === "`" || this.text[end + run.length] === "`")) {
      end = this.#find(run, end + 1);
    }
    if (end < 0) {
      this.#plain += run;
      this.#at = from;
      return true;
    }
    let code = this.text.slice(from, end).replace(/\n/g, " ");
    if (code.startsWith(" ") && code.endsWith(" ") && code.trim()) code = code.slice(1, -1);
    return this.#push(h("code", {}, code), end + run.length);
  }

  #emphasis() {
    const letter = this.text[this.#at];
    const double = this.text[this.#at + 1] === letter;
    if (letter === "~" && !double) return false;
    for (const mark of double ? [letter + letter, letter] : [letter]) {
      if (mark === "~") break;
      const end = this.#closer(mark);
      if (end < 0) continue;
      const tag = letter === "~" ? "del" : mark.length === 2 ? "strong" : "em";
      const inner = this.text.slice(this.#at + mark.length, end);
      const nodes = this.depth < DEPTH_MAX ? inlineNodes(inner, this.depth + 1) : [inner];
      return this.#push(h(tag, {}, nodes), end + mark.length);
    }
    return false;
  }

  /** Returns where the mark at #at is closed, or -1. */
  #closer(mark) {
    const { text } = this;
    const from = this.#at + mark.length;
    const word = (i) => i >= 0 && i < text.length && /[\p{L}\p{N}]/u.test(text[i]);
    // 2*3*4 and 2**3**4 are sums; 字*字*字 is emphasis.
    const inner = mark.length === 1 ? /[A-Za-z0-9]/ : /[0-9]/;
    const product = (at) => mark[0] === "*" && inner.test(text[at - 1] ?? " ") && inner.test(text[at + mark.length] ?? " ");
    if (from >= text.length || /\s/.test(text[from]) || product(this.#at)) return -1;
    if (mark[0] === "_" && word(this.#at - 1)) return -1;
    for (let end = this.#find(mark, from + 1); end >= 0; end = this.#find(mark, end + 1)) {
      if (/\s/.test(text[end - 1]) || text[end - 1] === "\\") continue;
      if (mark[0] === "_" && word(end + mark.length)) continue;
      if (product(end)) continue;
      if (mark.length === 1) {
        if (text[end + 1] === mark) {  // the beginning or the end of a double mark
          ++end;
          continue;
        }
        if (text[end - 1] === mark) continue;
      } else if (text[end + 2] === mark[0]) {
        ++end;  // the last two of three close a double mark
      }
      return end;
    }
    this.#hopeless.add(mark);
    return -1;
  }

  #link() {
    const image = this.text[this.#at] === "!";
    const match = /^!?\[((?:\\.|\[[^[\]]*\]|[^[\]\\])*)\]\(\s*<?((?:[^\s()<>]|\([^\s()]*\))*)>?(?:\s+["'][^"']*["'])?\s*\)/.exec(
      this.text.slice(this.#at, this.#at + 4096));
    if (!match) return false;
    const address = safeAddress(match[2]);
    if (address === null) {
      this.#plain += match[0];
      this.#at += match[0].length;
      return true;
    }
    const shown = image || this.depth >= DEPTH_MAX ? [match[1] || match[2]] : inlineNodes(match[1], this.depth + 1);
    return this.#push(linkTo(address, shown), this.#at + match[0].length);
  }

  #autolink() {
    const match = /^<((?:https?:\/\/|mailto:)[^\s<>]+)>/.exec(this.text.slice(this.#at, this.#at + 2048));
    const address = match && safeAddress(match[1]);
    return address ? this.#push(linkTo(address, [match[1]]), this.#at + match[0].length) : false;
  }

  #address() {
    if (/[\p{L}\p{N}]/u.test(this.text[this.#at - 1] ?? " ")) return false;
    const match = URL_IN_TEXT.exec(this.text.slice(this.#at, this.#at + 2048));
    if (!match) return false;
    let shown = match[0].replace(/[.,:;!?*_~]+$/, "");
    if (shown.endsWith(")") && !shown.includes("(")) shown = shown.slice(0, -1);
    const address = safeAddress(shown);
    return address ? this.#push(linkTo(address, [shown]), this.#at + shown.length) : false;
  }

  #formula() {
    for (const [open, close] of FORMULAS) {
      if (!this.text.startsWith(open, this.#at)) continue;
      const end = this.#find(close, this.#at + open.length);
      if (end > this.#at + open.length) return this.#verbatim(end + close.length);
    }
    return false;
  }

  // $x_1$ is a formula, "$5 and $6" is not.
  #dollars() {
    const match = /^\$(?=\S)[^$\n]*?[^\s\\$]\$(?!\d)/.exec(this.text.slice(this.#at, this.#at + 1024));
    return match ? this.#verbatim(this.#at + match[0].length) : false;
  }

  #verbatim(end) {
    return this.#push(h("span", { class: "formula" }, this.text.slice(this.#at, end)), end);
  }

  #lineEnd() {
    if (!/ {2}$/.test(this.#plain)) return false;
    this.#plain = this.#plain.trimEnd();
    return this.#push(h("br"), this.#at + 1);
  }
}

function linkTo(address, shown) {
  return h("a", { href: address, target: "_blank", rel: "noopener noreferrer" }, shown);
}
