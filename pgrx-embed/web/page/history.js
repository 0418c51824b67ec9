// What the page has seen of each queue: the last ten minutes, kept over a reload of this window.

const WINDOW = 600_000;
const GAP = 5_000;
// Samples that follow each other faster, as after a click, are left out: their rates would be noise.
const LEAST = 500;
// Rates are those of this time.
const RATE = 5_000;
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

  /** Notes totals as rates per second. A total that is less than before, as after a restart, gives none. */
  pushTotals(queue, at, totals, others) {
    const samples = this.queues.get(queue) ?? [];
    let base = null;
    for (let i = samples.length - 1; i >= 0 && samples[i].values && at - samples[i].at <= RATE + LEAST; i--) base = samples[i];
    const rates = {};
    for (const [name, total] of Object.entries(totals)) {
      const grown = total - base?.values[`total ${name}`];
      rates[name] = grown >= 0 && at - base.at >= LEAST ? (grown * 1000) / (at - base.at) : null;
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
