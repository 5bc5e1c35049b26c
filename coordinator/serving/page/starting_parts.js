// Divides what a starting server says about itself into lines, and reads the progress that they name.

/**
 * The lines of /health's detail: [{text}], and {text, done, total} where a line names how much is loaded, in GiB. The detail
 * names each worker that is missing: "waiting for the expert workers: worker A (it loads its weights: 1.0 of 3.0 GiB), worker B (...)".
 */
export function partsOf(detail) {
  return detail.split(/[,:;] (?=worker )/).map((text) => {
    const [, done, total] = /([\d.]+) of ([\d.]+) GiB/.exec(text) ?? [];
    return Number(total) > 0 ? { text, done: Number(done), total: Number(total) } : { text };
  });
}
