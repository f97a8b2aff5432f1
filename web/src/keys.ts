/** Keyboard shortcuts. They are off while somebody types, and can be turned off altogether. */

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { actsFor, asking, begin, focus, getSubjects, labelOf, leaveAsking, type Act } from "./acts";
import { hasShortcuts } from "./preferences";
import { go, query, replace, withQuery } from "./router";
import { ENTRIES } from "./routes";
import { undoLast } from "./ui/result";
import { stepTab } from "./ui/tabs";

export const isHelpOpen = signal(false);
export const isPaletteOpen = signal(false);

/** Returns whether it did something; false lets the key do what it does elsewhere. */
type Handler = () => boolean | void;

const BUILT_IN: [string, string][] = [
  ["j  k", "Next, previous in the list"],
  ["Enter", "Open the selected item"],
  ["Esc", "Close the open item"],
  ["← →", "Collapse, expand in a tree"],
  ["[  ]", "Previous tab, next tab"],
  ["u", "Undo, if the last act allows it"],
  ["Ctrl ↵", "Send what you typed"],
  ["/", "Search on this page, or everything"],
  ["Ctrl K", "Search or do anything"],
  ["?", "This help"],
];

const pageKeys: { key: string; handler: Handler; description: string }[] = [];

/** A key of a page that is no act, such as the next file; it works while the view is shown. */
export function useKey(key: string, handler: Handler, description: string): void {
  const current = useRef(handler);
  current.current = handler;
  useEffect(() => {
    const mine = { key, handler: () => current.current(), description };
    pageKeys.push(mine);
    return () => void pageKeys.splice(pageKeys.indexOf(mine), 1);
  }, [key, description]);
}

/** The acts that apply now: those registered, and those of the item alone. */
export function listActs(): Act[] {
  const { more = [] } = focus.value;
  const subjects = getSubjects();
  return subjects.length ? [...actsFor(subjects), ...(subjects.length === 1 ? more : [])] : [];
}

/** All keys with what they do here. */
export function listKeys(): [string, string][] {
  const acts = listActs().flatMap((act): [string, string][] => (act.key ? [[act.key, labelOf(act, getSubjects()[0]!)]] : []));
  return [...acts, ...pageKeys.map(({ key, description }): [string, string] => [key, description]), ...BUILT_IN];
}

let goPressedAt = 0;
const GO_WITHIN = 1200;

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.altKey || event.isComposing) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key.toLowerCase() === "k" && !event.shiftKey) {
        event.preventDefault();
        if (isPaletteOpen.value || !document.querySelector("dialog[open]")) isPaletteOpen.value = !isPaletteOpen.value;
      }
      return;
    }
    const target = event.target as HTMLElement;
    const isTyping = target.closest?.("input, textarea, select, [contenteditable]") !== null;
    if (event.key === "Escape") {
      if (isTyping) target.blur();
      else closeInnermost();
      return;
    }
    if (isTyping || !hasShortcuts.value || document.querySelector("dialog[open]")) return;
    if (handleKey(event.key)) event.preventDefault();
  });
}

/** Closes the innermost open item, on Esc. */
function closeInnermost(): void {
  if (document.querySelector("dialog[open]")) return;
  if (asking.peek()) return void leaveAsking();
  const open = ["event", "file", "task", "item"].find((name) => query.value.has(name));
  if (open) go(withQuery({ [open]: null }));
}

function handleKey(key: string): boolean {
  const entry = ENTRIES.find((each) => each.key === key);
  if (Date.now() - goPressedAt < GO_WITHIN && entry) {
    goPressedAt = 0;
    go(entry.path);
    return true;
  }
  goPressedAt = 0;
  // What the page knows comes before what the frame does.
  for (const each of [...pageKeys].reverse()) if (each.key === key && each.handler() !== false) return true;
  const act = listActs().find((each) => each.key === key);
  if (act) {
    begin(act, getSubjects());
    return true;
  }
  switch (key) {
    case "g":
      goPressedAt = Date.now();
      return true;
    case "u":
      return undoLast();
    case "/": {
      const field = document.querySelector<HTMLInputElement>("main [data-search]");
      if (!field) isPaletteOpen.value = true;
      field?.focus();
      field?.select();
      return true;
    }
    case "j":
      return moveSelection(1);
    case "k":
      return moveSelection(-1);
    case "[":
      stepTab(-1);
      return true;
    case "]":
      stepTab(1);
      return true;
    case "?":
      isHelpOpen.value = true;
      return true;
    default:
      return false;
  }
}

/** Selects the next or previous item of the list; an open task panel follows the selection. */
function moveSelection(by: number): boolean {
  const list = document.querySelector<HTMLElement>("main [data-list]");
  if (list) {
    const at = list.querySelector<HTMLElement>('.row[tabindex="0"]:not(.rows-head)');
    if (!at) return false;
    if (!list.contains(document.activeElement) && !query.value.has("task")) {
      at.focus();
      return true;
    }
    at.dispatchEvent(new KeyboardEvent("keydown", { key: by > 0 ? "ArrowDown" : "ArrowUp", bubbles: true }));
    if (query.value.has("task")) {
      requestAnimationFrame(() =>
        requestAnimationFrame(() => {
          const key = list.querySelector<HTMLElement>('.row[tabindex="0"]:not(.rows-head)')?.dataset.key;
          if (key && !key.startsWith("phase:") && !key.startsWith("agent:")) replace(withQuery({ task: key }));
        }),
      );
    }
    return true;
  }
  const items = [...document.querySelectorAll<HTMLElement>("main [data-item]")];
  if (items.length === 0) return false;
  const at = items.findIndex((item) => item.contains(document.activeElement));
  const next = items[at === -1 ? (by > 0 ? 0 : items.length - 1) : Math.max(0, Math.min(items.length - 1, at + by))]!;
  const focusable = next.matches("a, button") ? next : (next.querySelector<HTMLElement>("a[data-main], a, button") ?? next);
  focusable.focus();
  next.scrollIntoView({ block: "nearest" });
  return true;
}
