/** Buffers events: each once and in the order of their numbers, even if they arrive twice or out of order. */

import type { Envelope } from "./shapes";

export class EventBuffer {
  private recent: Envelope[] = [];
  /** The number of the newest event received. */
  last: number;

  constructor(
    last = 0,
    private readonly capacity = 2000,
  ) {
    this.last = last;
  }

  /** Add received events; returns the new ones in order. */
  add(received: Envelope[]): Envelope[] {
    const fresh = received.filter((event) => event.seq > this.last).sort((a, b) => a.seq - b.seq);
    const once = fresh.filter((event, at) => at === 0 || event.seq !== fresh[at - 1]!.seq);
    if (once.length === 0) return once;
    this.last = once[once.length - 1]!.seq;
    this.recent.push(...once);
    if (this.recent.length > this.capacity * 1.5) this.recent = this.recent.slice(-this.capacity);
    return once;
  }

  /** Returns the events after a number, or null if some are no longer buffered. */
  since(seq: number): Envelope[] | null {
    const oldest = this.recent[0];
    if (seq >= this.last) return [];
    if (!oldest || oldest.seq > seq + 1) return null;
    return this.recent.filter((event) => event.seq > seq);
  }

  /** Drop all events and continue after this number. */
  restart(at: number): void {
    this.recent = [];
    this.last = at;
  }
}
