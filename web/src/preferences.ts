/** Preferences stored in this browser: the theme, and whether shortcuts are on. */

import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";

export const theme = signal<Theme>(loadPreference("theme", "system") as Theme);
export const hasShortcuts = signal(loadPreference("shortcuts", "on") !== "off");

export function setTheme(to: Theme): void {
  theme.value = to;
  savePreference("theme", to);
  if (to === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = to;
}

export function setShortcuts(on: boolean): void {
  hasShortcuts.value = on;
  savePreference("shortcuts", on ? "on" : "off");
}

export function loadPreference(name: string, otherwise: string): string {
  try {
    return localStorage.getItem(`deepwork.${name}`) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function savePreference(name: string, value: string): void {
  try {
    localStorage.setItem(`deepwork.${name}`, value);
  } catch {
    // Private windows may refuse; the preference then lasts until the page is closed.
  }
}
