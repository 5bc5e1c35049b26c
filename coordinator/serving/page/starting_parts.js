// Divides what a starting server says about itself into lines, and reads the progress that they name.

const DETAIL_MAX = 4000; // characters; the rest of a longer text is not shown

/**
 * The lines of /health's detail: [{text}], and {text, done, total} where a line names how much is loaded, in GiB. The detail
 * names each worker that is missing: "waiting for the expert workers: worker A (it loads its weights: 1.0 of 3.0 GiB), worker B (...)".
 */
export function partsOf(detail) {
  return detail.slice(0, DETAIL_MAX).split(/[,:;] (?=worker )/).map((text) => {
    const [, done, total] = /([\d.]+) of ([\d.]+) GiB/.exec(text) ?? [];
    return Number(total) > 0 ? { text, done: Number(done) || 0, total: Number(total) } : { text };
  });
}
