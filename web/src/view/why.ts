/** What a person asks about code, and how it is known which task made a commit. */

export interface WhyQuestion {
  path?: string;
  line?: number;
  commit?: string;
}

const COMMIT = /^[0-9a-f]{7,64}$/i;
export const isCommit = (text: string): boolean => COMMIT.test(text);

/** Parses `FILE`, `FILE:LINE`, a commit or a range A..B; null if nothing is asked. */
export function parseQuestion(text: string): WhyQuestion | null {
  const given = text.trim();
  if (!given) return null;
  const line = /^(.+):(\d{1,9})$/.exec(given);
  if (line) return { path: line[1]!, line: Number(line[2]) };
  const looksLikeFile = !isCommit(given) && !given.includes("..") && /[./]/.test(given);
  return looksLikeFile ? { path: given } : { commit: given };
}

export function formatQuestion({ path, line, commit }: WhyQuestion): string {
  if (!path) return commit ?? "";
  return line ? `${path}:${line}` : path;
}

export function whyQuery({ path, line, commit }: WhyQuestion): string {
  const given = new URLSearchParams();
  if (path) given.set("path", path);
  if (line) given.set("line", String(line));
  if (commit) given.set("commit", commit);
  return given.toString();
}

const WAYS: Record<string, string> = {
  runner: "deepwork made the commit",
  landing: "a landing made the commit",
  watched: "it was made in the task's tree while the task ran",
  tree: "it changes the same files in the same way",
  patch_id: "it is the same change, rebased or cherry-picked",
  parents: "it merges commits of the task",
  trailer: "only its trailers say so",
};

export const explainLink = (knownBy: string): string => WAYS[knownBy] ?? knownBy.replaceAll("_", " ");

/** Writes ranges of lines: "line 3", or "lines 1–4, 9". */
export function formatLines(ranges: number[][]): string {
  const parts = ranges.map(([first, last]) => (first === last ? String(first) : `${first}–${last}`));
  return `${parts.length === 1 && ranges[0]![0] === ranges[0]![1] ? "line" : "lines"} ${parts.join(", ")}`;
}
