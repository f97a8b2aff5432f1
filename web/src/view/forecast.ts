/** What is said about the rest of a run; what is not known is said to be unknown. */

import type { Forecast, Range } from "../data/shapes-run";

const money = (amount: number): string => `$${amount.toFixed(2)}`;

function span(range: Range, write: (amount: number) => string): string {
  const [low, high] = [write(range.low), write(range.high)];
  return low === high ? write(range.likely) : `${write(range.likely)} (${low} to ${high})`;
}

export function writeMinutes(minutes: number): string {
  if (minutes < 1) return "under a minute";
  if (minutes < 90) return `${Math.round(minutes)} min`;
  const hours = Math.floor(minutes / 60);
  return `${hours} h ${Math.round(minutes - hours * 60)} min`;
}

/** One sentence: what the open tasks may still cost and take. */
export function describeForecast(forecast: Forecast): string {
  const left = `${forecast.tasks_left.toLocaleString()} ${forecast.tasks_left === 1 ? "task" : "tasks"} left`;
  const parts = [forecast.usd && `about ${span(forecast.usd, money)} more`, forecast.minutes && `about ${span(forecast.minutes, writeMinutes)} more`].filter(Boolean);
  return parts.length ? `${left}: ${parts.join(", ")}` : `${left}; what they will cost and take is not known yet`;
}

/** Amounts that a person may raise a limit to, from what it is and what was spent. */
export function suggestLimits(limit: number | null | undefined, spent: number): number[] {
  const base = Math.max(limit ?? 0, spent, 1);
  const nice = (amount: number): number => {
    const step = 10 ** Math.floor(Math.log10(amount)) / 2;
    return Math.ceil(amount / step) * step;
  };
  return [...new Set([1.25, 1.5, 2, 3, 5, 10].map((factor) => nice(base * factor)))].filter((amount) => amount > spent && amount !== limit);
}
