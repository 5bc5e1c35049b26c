// Draws the values of the last minutes as lines on a canvas, in the colours of the theme.
//
// plotLines(canvas, {series, seconds, format}): `series` is [{values, colour}] with one value for each second, the newest
// last, null where nothing was measured. `format` writes a value of the axis. The caller sets the text for screen readers
// (aria-label).
import { themeColours } from "./dom.js";

const TICKS = 3;
const LEFT = 8;
const BOTTOM = 18;
const TOP = 8;

/** Clears the canvas at the screen's resolution; returns {context, width, height} in CSS pixels. */
export function prepared(canvas) {
  const { clientWidth: width, clientHeight: height } = canvas;
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  context.font = `11px ${getComputedStyle(canvas).fontFamily}`;
  return { context, width, height };
}

/** Returns the smallest of 1, 2, 2.5, 5 times a power of ten that is at least `value`. */
export function niceCeiling(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 2.5, 5, 10].map((step) => step * power).find((step) => step >= value * 0.999);
}

export function plotLines(canvas, { series, seconds, format, top }) {
  const { context, width, height } = prepared(canvas);
  if (width === 0) return;
  const colours = themeColours(canvas.parentElement, ["line", "muted", ...series.map((one) => one.colour)]);
  const largest = Math.max(0, ...series.flatMap((one) => one.values.filter((value) => value !== null)));
  const ceiling = top ?? niceCeiling(largest);
  const labels = Array.from({ length: TICKS }, (_, i) => format((ceiling * i) / (TICKS - 1)));
  const right = width - Math.ceil(Math.max(...labels.map((label) => context.measureText(label).width))) - 8;
  const bottom = height - BOTTOM;
  const y = (value) => bottom - (bottom - TOP) * Math.min(1, value / ceiling);

  context.lineWidth = 1;
  context.textBaseline = "middle";
  labels.forEach((label, i) => {
    const at = Math.round(y((ceiling * i) / (TICKS - 1))) + 0.5;
    context.strokeStyle = colours.line;
    context.beginPath();
    context.moveTo(LEFT, at);
    context.lineTo(right, at);
    context.stroke();
    context.fillStyle = colours.muted;
    context.fillText(label, right + 6, at);
  });
  context.textBaseline = "alphabetic";
  context.fillText(seconds >= 120 ? `${seconds / 60} min ago` : `${seconds} s ago`, LEFT, height - 4);
  context.textAlign = "right";
  context.fillText("now", right, height - 4);
  context.textAlign = "left";
  for (const one of series) drawLine(context, one.values, colours[one.colour], y, right, bottom, seconds, one === series[0]);
}

function drawLine(context, values, colour, y, right, bottom, seconds, filled) {
  const x = (i) => right - ((values.length - 1 - i) / seconds) * (right - LEFT);
  context.strokeStyle = context.fillStyle = colour;
  context.lineWidth = 1.75;
  context.lineJoin = context.lineCap = "round";
  for (let from = 0; from < values.length; ++from) {
    if (values[from] === null) continue;
    let end = from;
    while (end + 1 < values.length && values[end + 1] !== null) ++end;
    context.beginPath();
    for (let i = from; i <= end; ++i) context.lineTo(x(i), y(values[i]));
    if (from === end) context.lineTo(x(from) + 0.1, y(values[from]));  // a single value is drawn as a point
    context.stroke();
    if (filled) {
      context.lineTo(x(end), bottom);
      context.lineTo(x(from), bottom);
      context.globalAlpha = 0.12;
      context.fill();
      context.globalAlpha = 1;
    }
    from = end;
  }
}
