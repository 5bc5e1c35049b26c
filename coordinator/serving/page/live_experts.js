// The card with the heat map of the experts: of the last seconds, or of everything that the workers have counted.
import { h } from "./dom.js";
import { HOT, drawHeatMap, heatScale, hottest, layersSince } from "./heatmap.js";

const RECENT_SECONDS = 30;
const SCALE_STEPS = 90;
const ROW_PX = [6, 22];  // smallest and largest height of a layer

export class ExpertsCard {
  #snapshots = [];  // {seconds, layers}
  #at = () => null;

  constructor() {
    this.canvas = h("canvas", { class: "heat", role: "img", "aria-label": "Load of experts by layer" });
    this.note = h("p", { class: "note" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.scale = h("canvas", { class: "heat-scale", "aria-hidden": "true" });
    this.range = h("div", { class: "choice", role: "radiogroup", "aria-label": "Time that the map covers" }, [["all", "since the start"], ["recent", `last ${RECENT_SECONDS} s`]]
      .map(([value, label]) => h("label", {}, h("input", { type: "radio", name: "heat-range", value, checked: value === "all", onchange: () => this.draw() }), h("span", {}, label))));
    this.element = h("section", { class: "card wide", "aria-label": "Load of experts" }, h("h3", {}, "Load of experts, by layer"), this.range,
      h("div", { class: "heat-frame" }, this.canvas, this.tip),
      h("div", { class: "heat-legend" }, h("span", {}, "idle"), this.scale, h("span", {}, `${HOT} times an even share`)), this.note);
    this.canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }

  /** Takes an answer of /expert_stats, or {failure}. */
  take({ layers, failure }, seconds) {
    if (failure) {
      this.note.textContent = failure.message;
      return;
    }
    this.#snapshots.push({ seconds, layers });
    while (this.#snapshots.length > 2 && seconds - this.#snapshots[1].seconds >= RECENT_SECONDS) this.#snapshots.shift();
    this.draw();
  }

  draw() {
    const last = this.#snapshots.at(-1);
    if (!last) return;
    const recent = this.range.querySelector("input:checked").value === "recent";
    const layers = recent ? layersSince(this.#snapshots[0].layers, last.layers) : last.layers;
    const height = Math.min(ROW_PX[1], Math.max(ROW_PX[0], 300 / Math.max(1, layers.length)));
    this.canvas.style.height = `${Math.max(1, layers.length) * height}px`;
    this.#at = drawHeatMap(this.canvas, layers);
    this.#drawScale();
    const hot = hottest(layers);
    this.note.textContent = layers.length === 0 ? "this model has no experts" : hot === null ? "no rows were computed"
      : `hottest: expert ${hot.expert} of layer ${hot.layer}, ${hot.ratio.toFixed(1)} times an even share`;
    this.canvas.setAttribute("aria-label", `Load of experts by layer; ${this.note.textContent}`);
  }

  #drawScale() {
    this.scale.width = SCALE_STEPS;
    this.scale.height = 1;
    const context = this.scale.getContext("2d");
    const colour = heatScale(this.element);
    for (let x = 0; x < SCALE_STEPS; ++x) {
      context.fillStyle = colour((x / (SCALE_STEPS - 1)) * HOT);
      context.fillRect(x, 0, 1, 1);
    }
  }

  #point(event) {
    const found = this.#at(event.offsetX, event.offsetY);
    this.tip.hidden = !found;
    if (!found) return;
    this.tip.textContent = `layer ${found.layer}, expert ${found.expert}: ${found.ratio.toFixed(2)}× · ${found.rows.toLocaleString("en")} rows`;
    this.tip.style.left = `${Math.min(event.offsetX + 12, this.canvas.clientWidth - this.tip.offsetWidth)}px`;
    this.tip.style.top = `${event.offsetY + 16}px`;
  }
}
