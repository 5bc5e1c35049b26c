// The live view behind a router: what the router knows about every coordinator (/health and /metrics), what each coordinator
// reports (internal_states of /server_info), and the sums that the plots show.
import { h } from "./dom.js";

const RATE_SECONDS = 3;
const SUMMED = ["running", "waiting", "kv_blocks_used", "kv_blocks_total"];

const percent = (part, whole) => (whole > 0 ? `${Math.round((part / whole) * 100)} %` : "–");
const count = (value) => (value === undefined ? "–" : Math.round(value).toLocaleString("en"));

export class CoordinatorsCard {
  #samples = [];  // {seconds, states: URL -> internal state}

  constructor() {
    this.list = h("ul", { class: "workers" });
    this.element = h("section", { class: "card wide", "aria-label": "Coordinators", hidden: true }, h("h3", {}, "Coordinators"), this.list);
  }

  /** Returns {generated, prompt} in tokens per second, and the sums over all coordinators that answered. */
  take(backends, internalStates, sample) {
    const states = new Map(internalStates.map((state) => [state.backend, state]));
    this.#samples.push({ seconds: sample.seconds, states });
    while (this.#samples.length > 2 && sample.seconds - this.#samples[1].seconds >= RATE_SECONDS) this.#samples.shift();
    this.list.replaceChildren(...backends.map((backend) => this.#coordinator(backend, states.get(backend.url), sample)));
    const sums = Object.fromEntries(SUMMED.map((name) => [name, internalStates.reduce((sum, state) => sum + state[name], 0)]));
    const rates = (name) => [...states.keys()].reduce((sum, url) => sum + this.#rate(url, name), 0);
    return { ...sums, generated: rates("tokens_generated"), prompt: rates("prefix_query_tokens") };
  }

  /** Returns the rate of a counter, which a restart resets; 0 for one that was not there before. */
  #rate(url, name) {
    const [first, last] = [this.#samples[0], this.#samples.at(-1)];
    const [before, now] = [first.states.get(url)?.[name], last.states.get(url)?.[name]];
    if (before === undefined || now === undefined || last.seconds <= first.seconds) return 0;
    return (now < before ? now : now - before) / (last.seconds - first.seconds);
  }

  #coordinator({ url, ready, detail }, state, sample) {
    const used = state ? state.kv_blocks_used / state.kv_blocks_total : 0;
    const fill = h("i");
    fill.style.width = `${used * 100}%`;
    const figure = (label, value) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
    const sent = sample.value("numoe_router_requests_total", { backend: url });
    const byPrefix = sample.value("numoe_router_requests_total", { backend: url, by: "prefix" });
    return h("li", {},
      h("div", { class: "worker-head" }, h("i", { class: `state ${ready ? "up" : "down"}` }), h("code", { title: url }, new URL(url).host),
        h("small", {}, ready ? "ready" : detail)),
      h("div", { class: "meter", role: "img", "aria-label": `KV cache: ${percent(used, 1)} in use` }, fill),
      h("dl", { class: "small-figures" },
        figure("running", count(state?.running)),
        figure("waiting", count(state?.waiting)),
        figure("tokens/s", state ? count(this.#rate(url, "tokens_generated")) : "–"),
        figure("KV cache", state ? percent(state.kv_blocks_used, state.kv_blocks_total) : "–"),
        figure("from prefix cache", state ? percent(state.prefix_hit_tokens, state.prefix_query_tokens) : "–"),
        figure("sent for a prefix", percent(byPrefix, sent))));
  }
}
