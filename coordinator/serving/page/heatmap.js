// Draws the experts' load: one row for each layer and one column for each expert, coloured by the ratio of the expert's
// share of its layer's rows to an even share (1: balanced).
import { themeColours } from "./dom.js";
import { prepared } from "./plot.js";

const LEFT = 30;
export const HOT = 3;  // the ratio at the end of the scale
const STEPS = ["heat-0", "heat-1", "heat-2", "heat-3"];

/** Returns the ratio of each expert's share to an even one, or null for a layer without rows. */
export function ratios(rows) {
  const total = rows.reduce((sum, count) => sum + count, 0);
  return total > 0 ? rows.map((count) => (count * rows.length) / total) : null;
}

/** Returns the counts since an earlier answer of /expert_stats, or all counts if they fell or have another shape. */
export function layersSince(before, after) {
  return after.map(({ layer, rows }, i) => {
    const old = before?.[i]?.layer === layer && before[i].rows.length === rows.length ? before[i].rows : null;
    const fell = old?.some((count, expert) => count > rows[expert]);
    return { layer, rows: old && !fell ? rows.map((count, expert) => count - old[expert]) : rows };
  });
}

/** Returns the layer and expert with the highest ratio, {layer, expert, ratio}, or null. */
export function hottest(layers) {
  let found = null;
  for (const { layer, rows } of layers) {
    (ratios(rows) ?? []).forEach((ratio, expert) => {
      if (!found || ratio > found.ratio) found = { layer, expert, ratio };
    });
  }
  return found;
}

function parsed(colour) {
  return colour.match(/[\d.]+/g).slice(0, 3).map(Number);
}

/** Returns a function that maps a ratio to a colour of the theme. */
export function heatScale(element) {
  const colours = themeColours(element, STEPS);
  const stops = STEPS.map((name) => parsed(colours[name]));
  return (ratio) => {
    const at = Math.min(1, Math.max(0, ratio / HOT)) * (stops.length - 1);
    const i = Math.min(stops.length - 2, Math.floor(at));
    const mixed = stops[i].map((from, channel) => Math.round(from + (stops[i + 1][channel] - from) * (at - i)));
    return `rgb(${mixed.join(",")})`;
  };
}

/** Draws the map; returns a function that maps a point to its cell, {layer, expert, ratio, rows}, or null. */
export function drawHeatMap(canvas, layers) {
  const { context, width, height } = prepared(canvas);
  const experts = Math.max(1, ...layers.map(({ rows }) => rows.length));
  const cellWidth = (width - LEFT) / experts;
  const cellHeight = height / Math.max(1, layers.length);
  const colour = heatScale(canvas.parentElement);
  const { muted } = themeColours(canvas.parentElement, ["muted"]);
  // Lines between the cells if these are large enough.
  const gapX = cellWidth >= 5 ? 1 : 0;
  const gapY = cellHeight >= 5 ? 1 : 0;
  const every = Math.ceil(14 / cellHeight);
  layers.forEach(({ layer, rows }, i) => {
    const [top, bottom] = [Math.round(i * cellHeight), Math.round((i + 1) * cellHeight)];
    const shares = ratios(rows) ?? rows.map(() => 0);
    shares.forEach((ratio, expert) => {
      const [left, right] = [LEFT + expert * cellWidth, LEFT + (expert + 1) * cellWidth];
      context.fillStyle = colour(ratio);
      context.fillRect(left, top, right - left - gapX, bottom - top - gapY);
    });
    if (i % every) return;
    context.fillStyle = muted;
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(String(layer), LEFT - 6, (top + bottom) / 2);
  });
  return (x, y) => {
    const expert = Math.floor((x - LEFT) / cellWidth);
    const at = layers[Math.floor(y / cellHeight)];
    if (!at || expert < 0 || expert >= at.rows.length) return null;
    return { layer: at.layer, expert, rows: at.rows[expert], ratio: ratios(at.rows)?.[expert] ?? 0 };
  };
}
