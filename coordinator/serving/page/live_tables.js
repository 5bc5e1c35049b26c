// Two cards of the live view: how the time of a model step is divided, and what each expert worker does.
import { duration } from "./answer.js";
import { h } from "./dom.js";
import { histogramBetween, increase, quantile, rate } from "./metrics.js";

const ms = (seconds) => (seconds === null ? "–" : duration(seconds * 1000));

/** Returns the bytes in a unit in which they have at most three digits. */
function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 999.5 && unit < units.length - 1) {
    value /= 1000;
    ++unit;
  }
  return `${value < 10 && unit > 0 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
}

export class PartsCard {
  constructor() {
    this.bar = h("div", { class: "parts-bar", "aria-hidden": "true" });
    this.list = h("ul", { class: "parts" });
    this.note = h("p", { class: "note" }, "no steps yet");
    this.element = h("section", { class: "card", "aria-label": "Time of a step" }, h("h3", {}, "Time of a step"), this.bar, this.list, this.note);
  }

  take(before, sample) {
    const name = "numoe_step_part_duration_seconds";
    const steps = increase(before, sample, "numoe_steps_total");
    this.note.textContent = steps > 0 ? "" : "no steps in the last seconds";
    if (steps === 0) return;  // the last values stay
    const parts = sample.labelValues(`${name}_sum`, "part")
      .map((part) => ({ part, seconds: increase(before, sample, `${name}_sum`, { part }) / steps }))
      .sort((a, b) => b.seconds - a.seconds);
    const total = parts.reduce((sum, { seconds }) => sum + seconds, 0) || 1;
    const step = histogramBetween(before, sample, "numoe_step_duration_seconds");
    const batch = histogramBetween(before, sample, "numoe_step_tokens");
    this.note.textContent = `a step takes ${ms(step.sum / (step.count || 1))} and has ${(batch.sum / (batch.count || 1)).toFixed(1)} tokens, on average`;
    this.bar.replaceChildren(...parts.map(({ seconds }, i) => {
      const piece = h("i", { class: `part-${i % 9}` });
      piece.style.flexGrow = String(seconds / total);
      return piece;
    }));
    this.list.replaceChildren(...parts.map(({ part, seconds }, i) => h("li", {}, h("i", { class: `dot part-${i % 9}` }),
      h("span", {}, part.replaceAll("_", " ")), h("b", {}, ms(seconds)), h("small", {}, `${Math.round((seconds / total) * 100)} %`))));
  }
}

export class WorkersCard {
  constructor() {
    this.list = h("ul", { class: "workers" });
    this.element = h("section", { class: "card wide", "aria-label": "Expert workers" }, h("h3", {}, "Expert workers"), this.list);
  }

  take(before, sample) {
    const workers = sample.labelValues("numoe_worker_up", "worker").sort();
    this.list.replaceChildren(...workers.map((worker) => this.#worker(worker, before, sample)));
  }

  #worker(worker, before, sample) {
    const up = sample.value("numoe_worker_up", { worker }) === 1;
    const calls = histogramBetween(before, sample, "numoe_worker_call_duration_seconds", { worker });
    const seconds = sample.seconds - before.seconds;
    const busy = seconds > 0 ? Math.min(1, calls.sum / seconds) : 0;
    const lost = sample.value("numoe_worker_lost_total", { worker });
    const fill = h("i");
    fill.style.width = `${busy * 100}%`;
    const figure = (label, value) => h("div", {}, h("dt", {}, label), h("dd", {}, value));
    return h("li", {},
      h("div", { class: "worker-head" }, h("i", { class: `state ${up ? "up" : "down"}` }), h("code", { title: worker }, worker.split("/").at(-1)),
        h("small", {}, `${up ? "up" : "down"}${lost ? `, lost ${lost} times` : ""}`)),
      h("div", { class: "meter", role: "img", "aria-label": `busy ${Math.round(busy * 100)} % of the time` }, fill),
      h("dl", { class: "small-figures" },
        figure("busy", `${Math.round(busy * 100)} %`),
        figure("calls/s", Math.round(seconds > 0 ? calls.count / seconds : 0).toLocaleString("en")),
        figure("median", ms(quantile(calls, 0.5))),
        figure("p99", ms(quantile(calls, 0.99))),
        figure("sent", `${bytes(rate(before, sample, "numoe_sent_bytes_total", { peer: worker }))}/s`),
        figure("received", `${bytes(rate(before, sample, "numoe_received_bytes_total", { peer: worker }))}/s`)));
  }
}
