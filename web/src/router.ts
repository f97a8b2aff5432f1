/** The URL holds the state of the view: what is open, filtered, sorted and selected. */

import { computed, signal } from "@preact/signals";

export const address = signal(location.pathname + location.search);

export const path = computed(() => address.value.split("?")[0]!);
export const query = computed(() => new URLSearchParams(address.value.split("?")[1] ?? ""));

/** Go to another view; Back returns to this one. */
export function go(to: string): void {
  if (to === address.value) return;
  history.pushState(null, "", to);
  syncAddress();
}

/** Change the view without a history entry, for example while the user types in a filter. */
export function replace(to: string): void {
  if (to === address.value) return;
  history.replaceState(null, "", to);
  syncAddress();
}

function syncAddress(): void {
  address.value = location.pathname + location.search;
}

/** The current URL with some parameters changed; an empty value removes the parameter. */
export function withQuery(changes: Record<string, string | number | null | undefined>): string {
  const next = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === undefined || value === "") next.delete(name);
    else next.set(name, String(value));
  }
  const text = next.toString();
  return path.value + (text ? `?${text}` : "");
}

export function taskAddress(id: string): string {
  return `/tasks/${encodeURIComponent(id)}`;
}

export function runAddress(id: string, more: Record<string, string> = {}): string {
  const text = new URLSearchParams(more).toString();
  return `/runs/${encodeURIComponent(id)}${text ? `?${text}` : ""}`;
}

/** Open what a notification is about, in this window: the service worker says which path. */
export function followNotifications(): void {
  navigator.serviceWorker?.addEventListener("message", ({ data }: MessageEvent<{ type?: string; path?: string }>) => {
    if (data?.type === "deepwork-open" && data.path?.startsWith("/")) go(data.path);
  });
}

/** Handle clicks on internal links without reloading the page. */
export function followLinks(): void {
  addEventListener("popstate", syncAddress);
  document.addEventListener("click", (event) => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const link = (event.target as Element | null)?.closest?.("a");
    if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
    if (link.pathname.startsWith("/api/")) return;
    if (link.hash && link.pathname === location.pathname) return;
    event.preventDefault();
    go(link.pathname + link.search);
    if (link.closest("[data-keeps-scroll]")) return;
    document.querySelector("main")?.scrollTo(0, 0);
    scrollTo(0, 0);
  });
}
