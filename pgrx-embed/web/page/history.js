// What the page has seen of each queue: the last ten minutes, kept over a reload of this window.

const WINDOW = 600_000;
const GAP = 5_000;
// Samples that follow each other faster, as after a click, are left out: their rates would be noise.
const LEAST = 500;
const KEPT_QUEUES = 120;
const STORED = 'xqueue board';

export class History {
  constructor(database) {
    this.database = database;
    this.queues = new Map();
    this.restore();
  }

  /** Notes values of a queue, or null where there were none. A sample that comes late is preceded by a gap. */
  push(queue, at, values) {
    const samples = this.queues.get(queue) ?? [];
    this.queues.delete(queue);
    this.queues.set(queue, samples);
    const last = samples.at(-1);
    if (last && at - last.at < LEAST) return;
    if (last && at - last.at > GAP) samples.push({ at: last.at + 1, values: null });
    samples.push({ at, values });
    while (samples[0].at < at - WINDOW) samples.shift();
    // The queue that was seen longest ago comes first.
    if (this.queues.size > KEPT_QUEUES) this.queues.delete(this.queues.keys().next().value);
  }

  /** Notes totals that only grow, as rates in a second. */
  pushTotals(queue, at, totals, others) {
    const last = this.queues.get(queue)?.at(-1);
    const rates = {};
    for (const [name, total] of Object.entries(totals)) {
      const before = last?.values?.[`total ${name}`];
      const grown = total - before;
      const isRate = at - last?.at >= LEAST && at - last?.at <= GAP && grown >= 0;
      rates[name] = isRate ? (grown * 1000) / (at - last.at) : null;
      rates[`total ${name}`] = total;
    }
    this.push(queue, at, { ...others, ...rates });
  }

  samples(queue) {
    return this.queues.get(queue) ?? [];
  }

  /** Keeps what a reload is to find. More than the browser has room for is not kept. */
  store() {
    try {
      const kept = [...this.queues].slice(-40);
      sessionStorage.setItem(STORED, JSON.stringify({ database: this.database, kept }));
    } catch {
      sessionStorage.removeItem(STORED);
    }
  }

  restore() {
    try {
      const { database, kept } = JSON.parse(sessionStorage.getItem(STORED) ?? '{}');
      if (database !== this.database) return;
      const since = Date.now() - WINDOW;
      for (const [queue, samples] of kept) {
        this.queues.set(queue, samples.filter((sample) => sample.at >= since));
      }
    } catch {
      this.queues.clear();
    }
  }
}
