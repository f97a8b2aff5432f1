/** What happened while somebody was away, in words. */

import { duration } from "../clock";
import type { SinceAnswer, SinceLine, SinceName } from "../data/shapes-notify";
import { runAddress, taskAddress } from "../router";

export const SINCE_NAMES: Record<SinceName, string> = {
  landed: "Landed",
  failed: "Failed",
  parked: "Parked",
  decided: "Decided without you",
  done: "Done",
};

/** Who gives no sign for so long was away. */
export const AWAY = 60 * 60 * 1000;

/** Say it in one line, without what there was none of: "3 landed, 1 failed, $4.20 spent". */
export function summarize(found: SinceAnswer): string {
  const words = (Object.keys(SINCE_NAMES) as SinceName[]).filter((name) => found[name].total > 0).map((name) => `${found[name].total.toLocaleString()} ${name}`);
  if (found.spent.usd >= 0.005) words.push(`$${found.spent.usd.toFixed(2)} spent`);
  return words.join(", ");
}

/** How long somebody was away, such as "2 h 10 min". */
export function measureAbsence(found: SinceAnswer): string {
  return duration(Date.parse(found.until) - Date.parse(found.since));
}

/** Where the page shows it. */
export function addressOf(line: SinceLine): string {
  if (line.kind === "task") return taskAddress(line.id);
  if (line.kind === "landing" || line.kind === "approval") return `/${line.kind}s/${encodeURIComponent(line.id)}`;
  if (line.kind === "session") return runAddress(line.id);
  return line.run ? runAddress(line.run.id, line.kind === "decision" ? { tab: "decisions" } : {}) : "/history?show=decisions";
}
