// Reads Prometheus' text format, and computes rates of counters and percentiles of histograms between two samples.

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:\\.|[^"\\])*)"/g;

function labelsOf(text) {
  const labels = {};
  for (const [, name, value] of text.matchAll(LABEL)) labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
  return labels;
}

/** All values of one answer of /metrics, by name. */
export class Sample {
  #series = new Map();  // name -> [{labels, value}]

  constructor(text, seconds) {
    this.seconds = seconds;  // when it was taken, by any clock
    for (const line of text.split("\n")) {
      const match = line.startsWith("#") ? null : SAMPLE.exec(line);
      if (!match) continue;
      const list = this.#series.get(match[1]) ?? [];
      list.push({ labels: match[2] ? labelsOf(match[2]) : {}, value: Number(match[3]) });
      this.#series.set(match[1], list);
    }
  }

  #matching(name, labels) {
    const wanted = Object.entries(labels);
    return (this.#series.get(name) ?? []).filter((one) => wanted.every(([key, value]) => one.labels[key] === value));
  }

  /** Returns the sum over the series with these labels; 0 if there are none. */
  value(name, labels = {}) {
    return this.#matching(name, labels).reduce((sum, one) => sum + one.value, 0);
  }

  /** Returns the values that a label has. */
  labelValues(name, label) {
    return [...new Set(this.#matching(name, {}).map((one) => one.labels[label]).filter((value) => value !== undefined))];
  }

  /** Returns {bounds, counts (cumulative), sum, count}; the last bound is Infinity. */
  histogram(name, labels = {}) {
    const buckets = new Map();
    for (const one of this.#matching(`${name}_bucket`, labels)) {
      const bound = one.labels.le === "+Inf" ? Infinity : Number(one.labels.le);
      buckets.set(bound, (buckets.get(bound) ?? 0) + one.value);
    }
    const bounds = [...buckets.keys()].sort((a, b) => a - b);
    return { bounds, counts: bounds.map((bound) => buckets.get(bound)), sum: this.value(`${name}_sum`, labels), count: this.value(`${name}_count`, labels) };
  }
}

/** Returns the increase of a counter; one that fell was reset in between. */
export function increase(before, after, name, labels = {}) {
  const [old, now] = [before.value(name, labels), after.value(name, labels)];
  return now < old ? now : now - old;
}

export function rate(before, after, name, labels = {}) {
  const seconds = after.seconds - before.seconds;
  return seconds > 0 ? increase(before, after, name, labels) / seconds : 0;
}

export function histogramBetween(before, after, name, labels = {}) {
  const [old, now] = [before.histogram(name, labels), after.histogram(name, labels)];
  if (now.count < old.count || old.bounds.length !== now.bounds.length) return now;
  return { bounds: now.bounds, counts: now.counts.map((count, i) => count - old.counts[i]), sum: now.sum - old.sum, count: now.count - old.count };
}

/** Computes what Prometheus' histogram_quantile does: linear within a bucket; null without observations. */
export function quantile(histogram, q) {
  const { bounds, counts, count } = histogram;
  if (!(count > 0) || bounds.length === 0) return null;
  const rank = q * count;
  const i = counts.findIndex((cumulative) => cumulative >= rank);
  if (i < 0 || bounds[i] === Infinity) return bounds.at(-2) ?? null;
  const [low, below] = i === 0 ? [0, 0] : [bounds[i - 1], counts[i - 1]];
  const inside = counts[i] - below;
  return inside > 0 ? low + (bounds[i] - low) * ((rank - below) / inside) : bounds[i];
}
