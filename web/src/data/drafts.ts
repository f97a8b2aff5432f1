/** Text that a person has begun: kept per item in this browser until it is sent or emptied, whatever happens to the item. */

import { signal, type Signal } from "@preact/signals";

export interface Draft {
  text: string;
  set: (text: string) => void;
  clear: () => void;
  /** When it was last changed, in milliseconds; null if there is none. */
  savedAt: number | null;
}

interface Kept {
  text: string;
  at: number;
}

const PREFIX = "deepwork.draft.";
const KEPT_FOR = 30 * 24 * 3600 * 1000;
const known = new Map<string, Signal<Kept | null>>();

function open(id: string): Signal<Kept | null> {
  let found = known.get(id);
  if (!found) known.set(id, (found = signal(load(id))));
  return found;
}

function load(id: string): Kept | null {
  try {
    const kept = JSON.parse(localStorage.getItem(PREFIX + id) ?? "null") as Kept | null;
    return kept && typeof kept.text === "string" && kept.text !== "" ? kept : null;
  } catch {
    return null; // A private window, or something else wrote it: there is no draft.
  }
}

export function saveDraft(id: string, text: string): void {
  const kept = text === "" ? null : { text, at: Date.now() };
  open(id).value = kept;
  try {
    if (kept) localStorage.setItem(PREFIX + id, JSON.stringify(kept));
    else localStorage.removeItem(PREFIX + id);
  } catch {
    // A private window, or no room: the text lasts until the page is closed.
  }
}

export function useDraft(id: string): Draft {
  const kept = open(id).value;
  return { text: kept?.text ?? "", set: (text) => saveDraft(id, text), clear: () => saveDraft(id, ""), savedAt: kept?.at ?? null };
}

export const readDraft = (id: string): string => open(id).peek()?.text ?? "";

export const hasDraft = (id: string): boolean => open(id).value !== null;

/** Follows what other tabs write, and forgets what is older than a month. */
export function startDrafts(): void {
  addEventListener("storage", (event) => {
    if (event.key?.startsWith(PREFIX)) open(event.key.slice(PREFIX.length)).value = load(event.key.slice(PREFIX.length));
  });
  try {
    for (const name of Object.keys(localStorage)) {
      if (!name.startsWith(PREFIX)) continue;
      const kept = load(name.slice(PREFIX.length));
      if (!kept || kept.at < Date.now() - KEPT_FOR) localStorage.removeItem(name);
    }
  } catch {
    // A private window: there is nothing to forget.
  }
}
