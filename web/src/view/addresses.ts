/** The addresses of views that are part of a path. */

export const RUN_TABS = ["steps", "timeline", "graph", "tasks", "files", "decisions", "issues", "landing", "log"];

/** Splits what follows `/runs/` into the id of a run and a tab; null if there is no such page. */
export function parseRunPath(rest: string): { id: string; tab: string | null } | null {
  const [id = "", tab, ...more] = rest.replace(/\/$/, "").split("/");
  if (!id || more.length > 0 || (tab !== undefined && !RUN_TABS.includes(tab))) return null;
  return { id, tab: tab ?? null };
}
