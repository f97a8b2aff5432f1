/** Decides what a rewind allows, and names the moments that a task can go back to. */

interface RewindLike {
  stage: string;
  undoes?: string | null;
  undone_by?: string | null;
}

/** Writes `start`, `attempt:2` or `checkpoint:3` for people. */
export function formatMoment(to: string): string {
  const [kind, number] = to.split(":");
  if (kind === "start") return "its start";
  return kind === "attempt" ? `the start of attempt ${number}` : `${kind} ${number ?? ""}`.trim();
}

export const isUnfinished = (rewind: RewindLike): boolean => rewind.stage !== "done" && rewind.stage !== "cancelled";

export const mayUndo = (rewind: RewindLike): boolean => rewind.stage === "done" && !rewind.undoes && !rewind.undone_by;
