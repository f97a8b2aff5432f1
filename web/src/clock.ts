/** Formats times and durations for people, in the local time zone. */

import { signal } from "@preact/signals";

/** The current time. It is updated every 5 seconds, which is enough for texts like "2 min ago". */
export const now = signal(Date.now());

export function startClock(): void {
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 5000);
}

const LONG = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });
const HOUR = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const MINUTE = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

export const absolute = (at: number): string => LONG.format(at);
export const clockTime = (at: number): string => HOUR.format(at);
export const shortClock = (at: number): string => MINUTE.format(at);
export const day = (at: number): string => DAY.format(at);

/** "12 s", "4 min", "2 h 5 min", "3 d 2 h". */
export function duration(ms: number): string {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  const m = Math.floor(s / 60);
  if (m < 60) return s % 60 && m < 10 ? `${m} min ${s % 60} s` : `${m} min`;
  const h = Math.floor(m / 60);
  if (h < 48) return m % 60 ? `${h} h ${m % 60} min` : `${h} h`;
  const d = Math.floor(h / 24);
  return h % 24 ? `${d} d ${h % 24} h` : `${d} d`;
}

/** The age of a time, in one unit. */
export function ago(at: number, present: number): string {
  const s = Math.round((present - at) / 1000);
  if (s < -5) return `in ${oneUnit(-s)}`;
  if (s < 10) return "just now";
  return `${oneUnit(s)} ago`;
}

export function oneUnit(s: number): string {
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172_800) return `${Math.floor(s / 3600)} h`;
  return `${Math.floor(s / 86_400)} d`;
}
