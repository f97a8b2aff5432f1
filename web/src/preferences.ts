/** What this browser remembers: the theme, and whether keys are shortcuts. */

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>(recall("theme", "system") as Theme);
export const hasShortcuts = signal(recall("shortcuts", "on") !== "off");

export function setTheme(to: Theme): void {
  theme.value = to;
  keep("theme", to);
  if (to === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = to;
}

export function setShortcuts(on: boolean): void {
  hasShortcuts.value = on;
  keep("shortcuts", on ? "on" : "off");
}

export function recall(name: string, otherwise: string): string {
  try {
    return localStorage.getItem(`deepwork.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function keep(name: string, value: string): void {
  try {
    localStorage.setItem(`deepwork.${name}`, value);
  } catch {
    // Private windows may refuse; then it holds until the page is closed.
  }
}
