/** Events in the order of their numbers, each once, whatever the wire does. */

import type { Envelope } from "./shapes";

export class Ledger {
  private recent: Envelope[] = [];
  /** The number up to which everything has been seen. */
  last: number;

  constructor(
    last = 0,
    private readonly keeps = 2000,
  ) {
    this.last = last;
  }

  /** Take what arrived; gives back what is new, in order. */
  take(arrived: Envelope[]): Envelope[] {
    const fresh = arrived.filter((event) => event.seq > this.last).sort((a, b) => a.seq - b.seq);
    const once = fresh.filter((event, at) => at === 0 || event.seq !== fresh[at - 1]!.seq);
    if (once.length === 0) return once;
    this.last = once[once.length - 1]!.seq;
    this.recent.push(...once);
    if (this.recent.length > this.keeps * 1.5) this.recent = this.recent.slice(-this.keeps);
    return once;
  }

  /** What was told after this number; null when it is no longer all here. */
  since(seq: number): Envelope[] | null {
    const oldest = this.recent[0];
    if (seq >= this.last) return [];
    if (!oldest || oldest.seq > seq + 1) return null;
    return this.recent.filter((event) => event.seq > seq);
  }

  /** Everything before was lost: go on from here. */
  restart(at: number): void {
    this.recent = [];
    this.last = at;
  }
}
