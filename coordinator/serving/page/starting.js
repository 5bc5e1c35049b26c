// The page while the server loads its model: shows what /health says, and loads "/" again when the server has started.
import { fetchHealth } from "./api.js";
import { byId, h } from "./dom.js";
import { partsOf } from "./starting_parts.js";

const POLL_MS = 1000;

function lineOf({ text, done, total }) {
  return h("li", {}, h("span", {}, text), total ? h("progress", { max: total, value: done, "aria-label": text }) : null);
}

function show(detail) {
  const parts = partsOf(detail);
  byId("parts").replaceChildren(...parts.map(lineOf));
  // A bar without a value moves to and fro: the server does something, but does not say how much of it is done.
  if (!parts.some(({ total }) => total)) byId("parts").append(h("li", {}, h("progress", { "aria-label": detail })));
}

async function poll() {
  const { status, detail } = await fetchHealth();
  if (status === "starting") show(detail ?? "");
  else if (status === "unreachable") byId("parts").replaceChildren(h("li", {}, "The server has ended, or cannot be reached. Its log says why."));
  else return setTimeout(() => location.reload(), POLL_MS);
  setTimeout(poll, POLL_MS);
}

poll();
