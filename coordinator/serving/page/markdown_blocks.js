// Divides a Markdown text into blocks: headings, paragraphs, lists, quotes, code, tables, rules. The input is lines, the
// result a tree; markdown_inline.js reads the marks within lines. Every text has a tree: a line without a mark is a paragraph.
//
// A block is {type, first, end: lines [first, end) of the text, ...}:
//   heading {level, text}   paragraph {text}   code {language, text, open}   quote {blocks}   rule
//   list {ordered, start, items: [{checked, blocks}]}   table {align: [..], head: [text..], rows: [[text..]..]}

const FENCE = /^( {0,3})(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])( +|$)(.*)$/;
const TASK = /^\[([ xX])\] +/;
const DELIMITERS = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const DEPTH_MAX = 12;

const indentOf = (line) => line.length - line.trimStart().length;
const isBlank = (line) => line.trim() === "";

export function parseBlocks(text) {
  return blocksOf(text.replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
}

function blocksOf(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      ++at;
      continue;
    }
    const block = blockAt(lines, at, depth);
    blocks.push({ ...block, first: at });
    at = block.end;
  }
  return blocks;
}

function blockAt(lines, at, depth) {
  const line = lines[at];
  if (FENCE.test(line)) return codeAt(lines, at);
  const heading = HEADING.exec(line);
  if (heading) return { type: "heading", level: heading[1].length, text: heading[2], end: at + 1 };
  if (RULE.test(line)) return { type: "rule", end: at + 1 };
  if (depth < DEPTH_MAX) {
    if (QUOTE.test(line)) return quoteAt(lines, at, depth);
    if (ITEM.test(line)) return listAt(lines, at, depth);
  }
  if (line.includes("|") && DELIMITERS.test(lines[at + 1] ?? "") && lines[at + 1].includes("-")) {
    const table = tableAt(lines, at);
    if (table) return table;
  }
  return paragraphAt(lines, at);
}

function codeAt(lines, at) {
  const [, indent, fence, info] = FENCE.exec(lines[at]);
  const close = new RegExp(`^ {0,3}${fence[0]}{${fence.length},}\\s*$`);
  const code = [];
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end])) {
    const line = lines[end++];
    code.push(line.slice(Math.min(indent.length, indentOf(line))));
  }
  const open = end === lines.length;  // the rest is not received yet
  return { type: "code", language: info.trim().split(/\s/)[0], text: code.join("\n"), open, end: open ? end : end + 1 };
}

function quoteAt(lines, at, depth) {
  const inner = [];
  let end = at;
  while (end < lines.length && !isBlank(lines[end]) && (QUOTE.test(lines[end]) || !interrupts(lines[end]))) {
    inner.push(lines[end++].replace(QUOTE, ""));
  }
  return { type: "quote", blocks: blocksOf(inner, depth + 1), end };
}

function listAt(lines, at, depth) {
  const [, , mark] = ITEM.exec(lines[at]);
  const ordered = /\d/.test(mark);
  const indent = indentOf(lines[at]);
  const same = (line) => {
    const item = ITEM.exec(line);
    return item && !RULE.test(line) && Math.abs(indentOf(line) - indent) < 2 && /\d/.test(item[2]) === ordered;
  };
  const items = [];
  let end = at;
  while (end < lines.length && same(lines[end])) {
    const item = itemAt(lines, end, depth);
    items.push(item);
    end = item.end;
    let next = end;
    while (next < lines.length && isBlank(lines[next])) ++next;
    if (next < lines.length && same(lines[next])) end = next;
  }
  return { type: "list", ordered, start: ordered ? parseInt(mark, 10) : 1, items, end };
}

function itemAt(lines, at, depth) {
  const [, before, mark, gap, rest] = ITEM.exec(lines[at]);
  const content = before.length + mark.length + Math.max(1, Math.min(gap.length, 4));
  const task = TASK.exec(rest);
  const inner = [task ? rest.slice(task[0].length) : rest];
  let end = at + 1;
  for (; end < lines.length; ++end) {
    const line = lines[end];
    if (isBlank(line)) {
      const next = lines.slice(end, end + 3).find((later) => !isBlank(later));
      if (next === undefined || indentOf(next) < before.length + 2) break;
    } else if (indentOf(line) < before.length + 2 && (isBlank(lines[end - 1]) || interrupts(line))) {
      break;
    }
    inner.push(line.slice(Math.min(content, indentOf(line))));
  }
  return { checked: task ? task[1] !== " " : null, blocks: blocksOf(inner, depth + 1), end };
}

/** Returns whether a line ends a paragraph by beginning another block. */
function interrupts(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || QUOTE.test(line) || ITEM.test(line);
}

function cellsOf(line) {
  const cells = [];
  let cell = "";
  let code = false;
  for (let i = 0; i < line.length; ++i) {
    if (line[i] === "\\" && line[i + 1] === "|") {
      cell += "|";
      ++i;
      continue;
    }
    if (line[i] === "`") code = !code;
    if (line[i] === "|" && !code) {
      cells.push(cell.trim());
      cell = "";
    } else {
      cell += line[i];
    }
  }
  cells.push(cell.trim());
  if (cells[0] === "") cells.shift();
  if (cells.length > 0 && cells.at(-1) === "") cells.pop();
  return cells;
}

function tableAt(lines, at) {
  const head = cellsOf(lines[at]);
  const align = cellsOf(lines[at + 1]).map((cell) => {
    const [left, right] = [cell.startsWith(":"), cell.endsWith(":")];
    return left && right ? "center" : right ? "right" : "left";
  });
  if (head.length !== align.length) return null;
  const rows = [];
  let end = at + 2;
  while (end < lines.length && !isBlank(lines[end]) && lines[end].includes("|")) {
    const row = cellsOf(lines[end++]).slice(0, head.length);
    while (row.length < head.length) row.push("");
    rows.push(row);
  }
  return { type: "table", align, head, rows, end };
}

function paragraphAt(lines, at) {
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !interrupts(lines[end])) ++end;
  // Leading spaces have no meaning; two trailing ones are a line break, which markdown_inline.js reads.
  return { type: "paragraph", text: lines.slice(at, end).map((line) => line.trimStart()).join("\n").trimEnd(), end };
}
