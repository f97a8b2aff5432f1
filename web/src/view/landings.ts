/** Words for landings, and what their texts say. */

export interface LandingLike {
  status: string;
  problem?: string | null;
  target: string;
  branch?: string | null;
  reason?: string | null;
}

const PROBLEMS: Record<string, string> = {
  conflict: "conflicts with what landed before",
  red: "a check fails after the merge",
  refused: "a person refused it",
  approval: "waits for your approval",
  checks: "its checks cannot run",
  target_red: "a check fails on the target itself",
  target_conflict: "the target conflicts with the integration branch",
  branch: "the branch cannot be moved",
};

/** Says in a few words what is in the way of a landing; empty if nothing is. */
export const describeProblem = (landing: LandingLike): string => (landing.problem ? (PROBLEMS[landing.problem] ?? landing.problem.replaceAll("_", " ")) : "");

/** Whether it moves an integration branch, because its target is checked out somewhere. */
export const isIntegrated = (landing: LandingLike): boolean => Boolean(landing.branch) && landing.branch !== landing.target;

const FINAL = new Set(["landed", "failed", "cancelled"]);
export const isOpen = (landing: LandingLike): boolean => !FINAL.has(landing.status);

const CONFLICT = /^CONFLICT \([^)]*\): (?:Merge conflict in (.+)|(.+?) (?:deleted|renamed|added) (?:in|to) .*)$/gm;

/** Lists the files that git names as conflicting; the text is what git said about the merge. */
export function listConflictFiles(reason: string | null | undefined): string[] {
  return [...new Set([...(reason ?? "").matchAll(CONFLICT)].map((found) => (found[1] ?? found[2])!))];
}

/** Sorts open landings by their place in the queue; those that wait for somebody come last. */
export function sortQueue<T extends { position?: number | null }>(landings: T[]): T[] {
  return [...landings].sort((a, b) => (a.position ?? Infinity) - (b.position ?? Infinity));
}
