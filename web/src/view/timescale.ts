/** Maps times to positions on the axis; long idle periods can be folded to a gap. */

export interface Span {
  start: number;
  end: number;
}

export interface Scale {
  from: number;
  to: number;
  /** The position of a time, between 0 and 1. */
  place: (at: number) => number;
  /** The time at a position. */
  moment: (place: number) => number;
  gaps: Span[];
}

interface Piece extends Span {
  from: number;
  width: number;
}

/** The share of the axis that a folded gap takes, and the share that an idle period must have to be folded. */
const GAP_SHARE = 0.015;
const LEAST_IDLE = 0.04;

export function timeScale(spans: readonly Span[], present: number, foldIdle: boolean): Scale {
  const [from, to] = extent(spans, present);
  const gaps = foldIdle ? idle(spans, from, to) : [];
  const pieces = piecesOf(from, to, gaps);
  const whole = pieces.reduce((sum, piece) => sum + piece.width, 0) || 1;
  const place = (at: number): number => {
    if (at <= from) return 0;
    for (const piece of pieces) {
      if (at <= piece.end) return (piece.from + (piece.width * (at - piece.start)) / Math.max(1, piece.end - piece.start)) / whole;
    }
    return 1;
  };
  const moment = (where: number): number => {
    const wanted = where * whole;
    for (const piece of pieces) {
      if (wanted <= piece.from + piece.width) return piece.start + ((wanted - piece.from) / (piece.width || 1)) * (piece.end - piece.start);
    }
    return to;
  };
  return { from, to, place, moment, gaps };
}

function extent(spans: readonly Span[], present: number): [number, number] {
  let from = Infinity;
  let to = -Infinity;
  for (const span of spans) {
    if (span.start < from) from = span.start;
    if (span.end > to) to = span.end;
  }
  if (from > to) return [present - 60_000, present];
  return [from, Math.max(to, from + 1000)];
}

/** Idle periods that are long enough to fold. */
export function idle(spans: readonly Span[], from: number, to: number): Span[] {
  const sorted = [...spans].sort((a, b) => a.start - b.start);
  const gaps: Span[] = [];
  let busyUntil = from;
  for (const span of sorted) {
    if (span.start - busyUntil > (to - from) * LEAST_IDLE) gaps.push({ start: busyUntil, end: span.start });
    busyUntil = Math.max(busyUntil, span.end);
  }
  return gaps;
}

function piecesOf(from: number, to: number, gaps: Span[]): Piece[] {
  const folded = gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0);
  const gapWidth = (to - from - folded) * GAP_SHARE || 1;
  const pieces: Piece[] = [];
  let at = from;
  let filled = 0;
  const add = (start: number, end: number, width: number) => {
    if (end <= start) return;
    pieces.push({ start, end, from: filled, width });
    filled += width;
  };
  for (const gap of gaps) {
    add(at, gap.start, gap.start - at);
    add(gap.start, gap.end, gapWidth);
    at = gap.end;
  }
  add(at, to, to - at);
  return pieces;
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];

/** Round times to label on the axis, at most about `most`. */
export function ticks(from: number, to: number, most: number): number[] {
  const span = (to - from) / 1000;
  const step = (STEPS.find((each) => span / each <= most) ?? Math.ceil(span / most / 604_800) * 604_800) * 1000;
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const found: number[] = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at <= to; at += step) found.push(at);
  return found;
}
