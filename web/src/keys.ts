/** Keyboard shortcuts. They are off while the user types, and can be turned off altogether. */

import { signal } from "@preact/signals";
import { hasShortcuts } from "./preferences";
import { go, query, replace, withQuery } from "./router";
import { stepTab } from "./ui/tabs";

export const isHelpOpen = signal(false);

export const PAGES: Record<string, [string, string]> = {
  h: ["/", "Home"],
  r: ["/runs", "Runs"],
  v: ["/approvals", "Approvals"],
  b: ["/blockers", "Blockers"],
  d: ["/decisions", "Decisions"],
  a: ["/agents", "Agents"],
  w: ["/work", "At work"],
  j: ["/jobs", "Jobs"],
  p: ["/plans", "Plans"],
  y: ["/why", "Why"],
  s: ["/health", "Health"],
};

let goPressedAt = 0;
const GO_WITHIN = 1200;

export function startKeys(): void {
  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
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
  const open = ["event", "file", "task"].find((name) => query.value.has(name));
  if (open) go(withQuery({ [open]: null }));
}

function handleKey(key: string): boolean {
  if (Date.now() - goPressedAt < GO_WITHIN && PAGES[key]) {
    goPressedAt = 0;
    go(PAGES[key][0]);
    return true;
  }
  goPressedAt = 0;
  switch (key) {
    case "g":
      goPressedAt = Date.now();
      return true;
    case "/": {
      const field = document.querySelector<HTMLInputElement>("main [data-search]") ?? document.querySelector<HTMLInputElement>("[data-search]");
      field?.focus();
      field?.select();
      return field !== null;
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
