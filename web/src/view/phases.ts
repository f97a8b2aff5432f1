/** The phases of a run as dots: each shows the status of its phase. */

export interface PhasePlace {
  current: number;
  total: number;
  /** The status of each phase; left out if there are many. */
  statuses?: string[] | null;
}

const DOTS: Record<string, string> = { completed: "is-past", in_progress: "is-now", failed: "is-failed" };

/** Returns the class of each dot; a phase that has not started has none. */
export const dotsOf = (phase: PhasePlace): string[] => (phase.statuses ?? []).map((status) => DOTS[status] ?? "");

/** Describes the dots in words. */
export function describePhases(phase: PhasePlace): string {
  const failed = (phase.statuses ?? []).filter((status) => status === "failed").length;
  return `phase ${Math.min(phase.current, phase.total)} of ${phase.total}${failed ? `, ${failed} failed` : ""}`;
}
