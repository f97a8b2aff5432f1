/** Since when this person was away, and what happened meanwhile. The server keeps that of people with a token of their own; else this browser does. */

import { effect, signal } from "@preact/signals";
import { loadPreference, savePreference } from "../preferences";
import { AWAY } from "../view/since";
import { callTool, read } from "./api";
import { connection, me } from "./live";
import type { SinceAnswer } from "./shapes-notify";

const SEEN = "seen";
const NOTE_EVERY = 20 * 60 * 1000;
const LOOK_EVERY = 60 * 1000;

/** What happened while this person was away for an hour or more; null if they were not, or have seen it. */
export const absence = signal<SinceAnswer | null>(null);

let noted = 0;
let isKept = false;

/** Ask once at the beginning, and whenever the page is looked at again after an hour. */
export function startVisits(): void {
  let isAsking = false;
  const look = async () => {
    if (isAsking || document.hidden || connection.peek() !== "live") return;
    isAsking = true;
    try {
      if (Date.now() - noted >= (noted ? AWAY : 0)) await findAbsence();
      if (Date.now() - noted >= NOTE_EVERY) await noteVisit();
      savePreference(SEEN, String(Date.now()));
    } catch {
      // The line at the top is a courtesy: what happened is on the pages, too.
    } finally {
      isAsking = false;
    }
  };
  effect(() => {
    if (connection.value === "live") void look();
  });
  document.addEventListener("visibilitychange", () => void look());
  setInterval(() => void look(), LOOK_EVERY);
}

async function findAbsence(): Promise<void> {
  const { data } = await read<SinceAnswer>("/since");
  isKept = data.is_kept;
  if (isKept) return show(data, data.is_back);
  const seen = Number(loadPreference(SEEN, ""));
  if (!seen || Date.now() - seen < AWAY) return;
  const { data: own } = await read<SinceAnswer>(`/since?since=${encodeURIComponent(new Date(seen).toISOString())}`);
  show(own, true);
}

function show(found: SinceAnswer, wasAway: boolean): void {
  if (wasAway && (found.total > 0 || found.spent.usd > 0)) absence.value = found;
}

async function noteVisit(): Promise<void> {
  noted = Date.now();
  if (isKept && me.value.actions?.includes("note_visit")) await callTool("note_visit", {}, crypto.randomUUID());
}
