// Colours code by what nearly all languages have: comments, strings, numbers and a few words. A rough scanner with a few
// regular expressions; text that it does not know has no colour.
import { h } from "./dom.js";

const TEXT_MAX = 50_000;  // longer code is not coloured, because it is coloured again in every frame of a stream

const SLASHES = String.raw`\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const HASH = String.raw`#[^\n]*`;
const DASHES = String.raw`--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)`;
const STRING = String.raw`"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?|` + "`(?:\\\\.|[^`\\\\])*`?";
const NUMBER = String.raw`\b0[xX][\da-fA-F_]+\b|\b\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?\b`;
const WORD = String.raw`[A-Za-z_$][\w$]*`;

const WORDS_C = "auto break case catch class const constexpr continue default delete do else enum export extends extern false final fn for " +
  "func function if impl implements import in inline interface let match mut namespace new nil null nullptr operator override " +
  "package private protected pub public return self static struct super switch template this throw trait true try type typename " +
  "typeof union unsafe use using var virtual void volatile where while yield async await bool char double float int long short " +
  "signed unsigned string boolean number undefined of from as go defer chan map range select";
const WORDS_HASH = "and as assert async await break case class continue def del do done elif else end esac except export False false fi finally " +
  "for from function global if import in is lambda let local None nonlocal not null or pass raise return self set then True true " +
  "try unless until while with yield";
const WORDS_SQL = "add all alter and as asc begin between by case column commit constraint create default delete desc distinct drop else end " +
  "exists false foreign from full group having in index inner insert into is join key left like limit not null offset on or order " +
  "outer primary references right rollback select set table then true union unique update using values view when where with";

const FAMILIES = [
  { names: "js javascript jsx mjs ts typescript tsx json jsonc json5 c h cc cpp c++ cxx hpp cuda cu java kotlin kt scala swift rust rs go golang cs csharp " +
    "dart php proto zig css scss less", comment: SLASHES, words: WORDS_C },
  { names: "py python python3 rb ruby sh bash zsh shell console fish yaml yml toml ini cmake make makefile dockerfile docker r perl elixir nim conf",
    comment: HASH, words: WORDS_HASH },
  { names: "sql mysql postgres postgresql sqlite lua haskell hs ada", comment: DASHES, words: WORDS_SQL, anyCase: true },
];

const scanners = new Map();
for (const { names, comment, words, anyCase } of FAMILIES) {
  const scanner = {
    pattern: new RegExp(`(?<comment>${comment})|(?<string>${STRING})|(?<number>${NUMBER})|(?<word>${WORD})`, "g"),
    words: new Set(words.split(" ")),
    anyCase,
  };
  for (const name of names.split(" ")) scanners.set(name, scanner);
}

/** Returns the code as nodes, which together have the code's text. */
export function highlighted(code, language) {
  const scanner = scanners.get(language.toLowerCase());
  if (!scanner || code.length > TEXT_MAX) return [code];
  const nodes = [];
  let plain = "";
  let at = 0;
  for (const match of code.matchAll(scanner.pattern)) {
    const kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
    plain += code.slice(at, match.index);
    at = match.index + match[0].length;
    if (kind === "word" && !scanner.words.has(scanner.anyCase ? match[0].toLowerCase() : match[0])) {
      plain += match[0];
      continue;
    }
    if (plain) nodes.push(plain);
    plain = "";
    nodes.push(h("span", { class: `code-${kind}` }, match[0]));
  }
  nodes.push(plain + code.slice(at));
  return nodes;
}
