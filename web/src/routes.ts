/** Every page, with the module that draws it: a page is loaded when somebody goes there. */

import { effect, signal } from "@preact/signals";
import type { ComponentType } from "preact";

export interface PageProps {
  /** What follows the page's own path, decoded: "", "ab_123", "ab_123/now". */
  rest: string;
}

export interface Route {
  path: string;
  name: string;
  load: () => Promise<{ default: ComponentType<PageProps> }>;
  /** A page without an entry in the navigation: its path alone shows something, too. */
  standsAlone?: boolean;
}

/** A page in the navigation. */
export interface Entry extends Route {
  /** Goes there after `g`. */
  key: string;
  /** An SVG path on a grid of 16 by 16. */
  icon: string;
  /** Takes what follows its path, too. */
  takesRest?: boolean;
}

export const ENTRIES: Entry[] = [
  { path: "/", name: "Inbox", key: "i", icon: "M2 9l2.2-5.5h7.6L14 9v4H2zM2 9h3.4l1 1.8h3.2l1-1.8H14", load: () => import("./pages/inbox") },
  { path: "/live", name: "Live", key: "l", icon: "M8 1.8v2.4M8 11.8v2.4M1.8 8h2.4M11.8 8h2.4M3.6 3.6l1.7 1.7M10.7 10.7l1.7 1.7M12.4 3.6l-1.7 1.7M5.3 10.7l-1.7 1.7M8 5.6a2.4 2.4 0 1 0 0 4.8a2.4 2.4 0 1 0 0-4.8", load: () => import("./pages/live") },
  { path: "/review", name: "Review", key: "v", icon: "M2.5 3h11v8H8l-3 2.5V11H2.5zM5.5 6.8l1.6 1.6 3-3", load: () => import("./pages/review") },
  { path: "/runs", name: "Runs", key: "r", icon: "M2.5 4h11M2.5 8h7M2.5 12h9", load: () => import("./pages/runs") },
  { path: "/spend", name: "Spend", key: "s", icon: "M8 1.8v12.4M11 4.6c-.6-1-1.7-1.5-3-1.5-1.8 0-3 .9-3 2.3 0 3.4 6.2 1.6 6.2 4.9 0 1.5-1.3 2.5-3.2 2.5-1.5 0-2.7-.6-3.3-1.7", load: () => import("./pages/spend") },
  { path: "/history", name: "History", key: "h", icon: "M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4M8 4.5V8l2.5 1.8", load: () => import("./pages/history") },
  { path: "/settings", name: "Settings", key: "e", icon: "M2 4.5h7M12.5 4.5H14M10.7 2.8v3.4M2 11.5h1.5M7 11.5h7M5.2 9.8v3.4", load: () => import("./pages/settings") },
];

/** The pages of single things: their path is followed by an id. */
export const THINGS: Route[] = [
  { path: "/runs", name: "Run", load: () => import("./pages/run") },
  { path: "/tasks", name: "Task", load: () => import("./pages/task") },
  { path: "/approvals", name: "Approval", load: () => import("./pages/approvals") },
  { path: "/since", name: "Since you left", standsAlone: true, load: () => import("./pages/since") },
  { path: "/landings", name: "Landing", load: () => import("./pages/landings") },
  { path: "/work", name: "Run", load: () => import("./pages/work").then((module) => ({ default: module.AgentRunPage })) },
];

/** Addresses of earlier versions, and where they lead; the query stays. */
export const REDIRECTS: [from: string, to: string][] = [
  ["/decisions", "/history?show=decisions"],
  ["/why", "/history?show=why"],
  ["/health", "/settings"],
  ["/blockers", "/history?show=problems"],
  ["/approvals", "/history?show=approvals"],
  ["/plans", "/runs?kind=plan"],
  ["/jobs", "/runs?kind=job"],
  ["/work", "/live"],
  ["/agents", "/live?show=agents"],
];

/** The subject of the page, for the title of the window. */
export const subject = signal("");
/** How much waits for a person. */
export const waiting = signal(0);

effect(() => {
  document.title = `${waiting.value ? `(${waiting.value}) ` : ""}${subject.value ? `${subject.value} · ` : ""}deepwork`;
});

export interface Place {
  route: Route;
  rest: string;
}

/** The page at a path; null if there is none. */
export function findPlace(at: string): Place | null {
  const clean = at.length > 1 ? at.replace(/\/+$/, "") : at;
  for (const route of [...ENTRIES, ...THINGS.filter((each) => each.standsAlone)]) if (clean === route.path) return { route, rest: "" };
  for (const route of [...THINGS, ...ENTRIES.filter((each) => each.takesRest)]) if (clean.startsWith(`${route.path}/`)) return { route, rest: decode(clean.slice(route.path.length + 1)) };
  return null;
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text; // not an id of ours
  }
}

/** Where an address of an earlier version leads now; null if it is none. */
export function findRedirect(at: string, search: string): string | null {
  const found = REDIRECTS.find(([from]) => from === at.replace(/\/+$/, ""));
  if (!found) return null;
  const [path, own = ""] = found[1].split("?");
  const both = new URLSearchParams(own);
  for (const [name, value] of new URLSearchParams(search)) both.set(name, value);
  return both.size ? `${path}?${both}` : path!;
}
