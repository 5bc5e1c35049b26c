// The live view: polls /metrics (every second) and /expert_stats while it is shown and the page is visible, and draws the
// changes between two polls. The metrics' names are in common/observe/metric_list.h. Behind a router, /metrics comes from
// the router: the view then shows its coordinators instead of workers and experts.
import { duration } from "./answer.js";
import { fetchHealth, fetchJson, fetchText } from "./api.js";
import { byId, h } from "./dom.js";
import { CoordinatorsCard } from "./live_coordinators.js";
import { ExpertsCard } from "./live_experts.js";
import { PartsCard, WorkersCard } from "./live_tables.js";
import { Sample, histogramBetween, increase, quantile, rate } from "./metrics.js";
import { plotLines } from "./plot.js";

const POLL_MS = 1000;
const SHOWN_SECONDS = 120;
const RATE_SECONDS = 3;     // the time over which rates are computed
const WINDOW_SECONDS = 15;  // the time over which percentiles and shares are computed
const EXPERTS_EVERY = 2;    // polls of /metrics for each poll of /expert_stats

const ms = (seconds) => duration(seconds * 1000);
const whole = (value) => (value < 10 && !Number.isInteger(value) ? value.toFixed(1) : Math.round(value).toLocaleString("en"));
const percent = (share) => `${(share * 100).toFixed(share > 0 && share < 0.1 ? 1 : 0)} %`;

/** A card with a figure for each line, and their plot. */
class PlotCard {
  constructor({ title, lines, format, top }) {
    this.lines = lines.map((line) => ({ ...line, values: [], figure: h("b", {}, "–") }));
    this.format = format;
    this.top = top;
    this.note = h("p", { class: "note" });
    this.canvas = h("canvas", { class: "plot", role: "img", "aria-label": title });
    this.element = h("section", { class: "card", "aria-label": title }, h("h3", {}, title),
      h("dl", { class: "figures" }, this.lines.map((line) => h("div", {},
        h("dt", {}, h("i", { class: `dot ${line.colour}` }), line.label), h("dd", {}, line.figure)))),
      this.canvas, this.note);
    this.title = title;
  }

  /** Adds one value for each line, null where nothing was measured. */
  add(values, note = "") {
    this.lines.forEach((line, i) => {
      line.values.push(values[i]);
      if (line.values.length > SHOWN_SECONDS) line.values.shift();
      line.figure.textContent = values[i] === null ? "–" : this.format(values[i]);
    });
    this.note.textContent = note;
    this.draw();
  }

  draw() {
    plotLines(this.canvas, { series: this.lines, seconds: SHOWN_SECONDS, format: this.format, top: this.top });
    this.canvas.setAttribute("aria-label", `${this.title}, now: ${this.lines.map((line) => `${line.label} ${line.figure.textContent}`).join(", ")}`);
  }
}

export class LiveView {
  #settings;
  #samples = [];
  #timer = null;
  #polls = 0;
  #state = h("p", { class: "live-state", role: "status" });

  constructor(settings) {
    this.#settings = settings;
    this.tokens = new PlotCard({ title: "Tokens per second", format: whole,
      lines: [{ label: "generated", colour: "series-1" }, { label: "prompt", colour: "series-2" }] });
    this.first = new PlotCard({ title: "Time to first token", format: ms,
      lines: [{ label: "median", colour: "series-1" }, { label: "p99", colour: "series-3" }] });
    this.between = new PlotCard({ title: "Time between tokens", format: ms,
      lines: [{ label: "median", colour: "series-1" }, { label: "p99", colour: "series-3" }] });
    this.requests = new PlotCard({ title: "Requests", format: whole,
      lines: [{ label: "running", colour: "series-1" }, { label: "waiting", colour: "series-3" }] });
    this.kv = new PlotCard({ title: "KV cache in use", format: percent, top: 1, lines: [{ label: "in use", colour: "series-1" }] });
    this.parts = new PartsCard();
    this.workers = new WorkersCard();
    this.experts = new ExpertsCard();
    this.coordinators = new CoordinatorsCard();
    this.plots = [this.tokens, this.first, this.between, this.requests, this.kv];
    byId("live-body").append(this.#state, h("div", { class: "cards" },
      [...this.plots, this.coordinators, this.parts, this.workers, this.experts].map((card) => card.element)));
    document.addEventListener("visibilitychange", () => this.#schedule());
    new ResizeObserver(() => this.#redraw()).observe(byId("live-body"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#redraw());
  }

  /** Begins or stops polling. */
  show(shown) {
    this.shown = shown;
    this.#schedule();
  }

  redraw() {
    this.#redraw();
  }

  #schedule() {
    clearTimeout(this.#timer);
    this.#timer = null;
    if (!this.shown || document.hidden) return;
    this.#poll();
  }

  async #poll() {
    const started = performance.now();
    try {
      const text = await fetchText("/metrics", this.#settings.key);
      const sample = new Sample(text, performance.now() / 1000);
      const routed = sample.labelValues("numoe_router_backend_up", "backend").length > 0;
      this.#showRouter(routed);
      if (routed) await this.#takeRouter(sample);
      else this.#take(sample);
      if (!routed && this.#polls++ % EXPERTS_EVERY === 0) {
        const stats = await fetchJson("/expert_stats", this.#settings.key).catch((failure) => ({ failure }));
        this.experts.take(stats, performance.now() / 1000);
      }
      this.#say("");
    } catch (failure) {
      this.#say(failure.message);
    }
    clearTimeout(this.#timer);
    if (this.shown && !document.hidden) this.#timer = setTimeout(() => this.#poll(), Math.max(0, POLL_MS - (performance.now() - started)));
  }

  #say(text) {
    if (this.#state.textContent !== text) this.#state.textContent = text;
  }

  /** Returns the newest sample that is at least `seconds` older than the last one, or the oldest sample. */
  #before(seconds) {
    const last = this.#samples.at(-1).seconds;
    return this.#samples.findLast((sample) => last - sample.seconds >= seconds - 0.2) ?? this.#samples[0];
  }

  #take(sample) {
    this.#samples.push(sample);
    if (this.#samples.length > WINDOW_SECONDS + 5) this.#samples.shift();
    if (this.#samples.length < 2) return;
    const recent = this.#before(RATE_SECONDS);
    const before = this.#before(WINDOW_SECONDS);
    this.tokens.add([rate(recent, sample, "numoe_tokens_generated_total"), rate(recent, sample, "numoe_tokens_prompt_total")]);
    for (const [card, name] of [[this.first, "numoe_time_to_first_token_seconds"], [this.between, "numoe_inter_token_latency_seconds"]]) {
      const between = histogramBetween(before, sample, name);
      card.add([quantile(between, 0.5), quantile(between, 0.99)], between.count ? "" : `none in the last ${WINDOW_SECONDS} s`);
    }
    this.requests.add([sample.value("numoe_requests_running"), sample.value("numoe_requests_waiting")], this.#requestsNote(sample));
    this.kv.add([sample.value("numoe_kv_usage_ratio")], this.#kvNote(sample));
    this.parts.take(before, sample);
    this.workers.take(before, sample);
  }

  #showRouter(shown) {
    this.coordinators.element.hidden = !shown;
    for (const card of [this.first, this.between, this.parts, this.workers, this.experts]) card.element.hidden = shown;
  }

  async #takeRouter(sample) {
    const nothing = { internal_states: [] };  // if no coordinator answers
    const [health, info] = await Promise.all([fetchHealth(), fetchJson("/server_info", this.#settings.key).catch(() => nothing)]);
    const backends = health.backends ?? [];
    const sums = this.coordinators.take(backends, info.internal_states, sample);
    this.tokens.add([sums.generated, sums.prompt]);
    this.requests.add([sums.running, sums.waiting], `of ${info.internal_states.length} coordinators; ${backends.filter((one) => one.ready).length} of ${backends.length} are ready`);
    this.kv.add([sums.kv_blocks_total > 0 ? sums.kv_blocks_used / sums.kv_blocks_total : null], `${whole(sums.kv_blocks_used)} of ${whole(sums.kv_blocks_total)} blocks`);
  }

  #requestsNote(sample) {
    const finished = sample.value("numoe_requests_finished_total");
    const preempted = sample.value("numoe_preemptions_total");
    const rejected = sample.value("numoe_requests_rejected_total");
    return `${whole(finished)} finished, ${whole(rejected)} rejected, ${whole(preempted)} preempted since the start`;
  }

  #kvNote(sample) {
    const first = this.#samples[0];
    const asked = increase(first, sample, "numoe_prefix_cache_query_tokens_total");
    const hit = increase(first, sample, "numoe_prefix_cache_hit_tokens_total");
    const blocks = `${whole(sample.value("numoe_kv_blocks_used"))} of ${whole(sample.value("numoe_kv_blocks_capacity"))} blocks`;
    return asked > 0 ? `${blocks}; ${percent(hit / asked)} of recent prompts came from the prefix cache` : blocks;
  }

  #redraw() {
    if (!this.shown) return;
    for (const card of this.plots) card.draw();
    this.experts.draw();
  }
}
