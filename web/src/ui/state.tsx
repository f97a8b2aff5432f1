/** Shows a state as a shape, a word and a colour, never as a colour alone. */

type Tone = "quiet" | "run" | "good" | "warn" | "bad" | "human";

interface Look {
  tone: Tone;
  word: string;
  shape: string;
}

/** Stroked SVG paths on a 16 by 16 grid. */
const SHAPES: Record<string, string> = {
  dashes: "M8 1.8a6.2 6.2 0 0 1 3.1.8M13.4 4.9a6.2 6.2 0 0 1 .8 3.1M13.4 11.1a6.2 6.2 0 0 1-2.3 2.3M8 14.2a6.2 6.2 0 0 1-3.1-.8M2.6 11.1a6.2 6.2 0 0 1-.8-3.1M2.6 4.9a6.2 6.2 0 0 1 2.3-2.3",
  ring: "M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4M8 7v2",
  play: "M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4M6.7 5.5l4 2.5-4 2.5z",
  pencil: "M2.5 13.5l.8-3.3 7.6-7.6 2.5 2.5-7.6 7.6zM9.2 4.3l2.5 2.5",
  pause: "M5.5 3v10M10.5 3v10",
  stop: "M5.3 1.8h5.4l3.5 3.5v5.4l-3.5 3.5H5.3l-3.5-3.5V5.3zM4.8 8h6.4",
  clock: "M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4M8 4.5V8l2.5 1.8",
  check: "M2.5 8.5l3.7 3.7 7.3-8",
  half: "M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4M8 1.8v12.4M8 4.5l3.6 1M8 8h4.5M8 11.5l3.6-1",
  cross: "M3.3 3.3l9.4 9.4M12.7 3.3l-9.4 9.4",
  slash: "M8 1.8a6.2 6.2 0 1 0 0 12.4a6.2 6.2 0 1 0 0-12.4M3.8 12.2l8.4-8.4",
  eye: "M1.2 8s2.5-4.5 6.8-4.5S14.8 8 14.8 8s-2.5 4.5-6.8 4.5S1.2 8 1.2 8zM8 6.2a1.8 1.8 0 1 0 0 3.6a1.8 1.8 0 1 0 0-3.6",
  shield: "M8 1.6l5.4 2v4.2c0 3.2-2.2 5.4-5.4 6.6-3.2-1.2-5.4-3.4-5.4-6.6V3.6zM8 5v3.4M8 10.6v.4",
  flag: "M3.5 14.5v-13M3.5 2.5h8.5l-2 3 2 3H3.5",
  dot: "M8 4.6a3.4 3.4 0 1 0 0 6.8a3.4 3.4 0 1 0 0-6.8",
  unlink: "M6.5 9.5l3-3M5.5 7L3.6 8.9a2.5 2.5 0 0 0 3.5 3.5L9 10.5M10.5 9l1.9-1.9a2.5 2.5 0 0 0-3.5-3.5L7 5.5M3 3l1.2 1.2M13 13l-1.2-1.2",
};

const LOOKS: Record<string, Look> = {
  pending: { tone: "quiet", word: "not started", shape: "dashes" },
  waiting: { tone: "quiet", word: "waiting", shape: "dashes" },
  needs_you: { tone: "human", word: "needs you", shape: "shield" },
  unattended: { tone: "bad", word: "unattended", shape: "unlink" },
  ready: { tone: "run", word: "ready", shape: "ring" },
  planning: { tone: "run", word: "planning", shape: "pencil" },
  in_progress: { tone: "run", word: "running", shape: "play" },
  active: { tone: "run", word: "active", shape: "play" },
  paused: { tone: "warn", word: "paused", shape: "pause" },
  blocked: { tone: "warn", word: "blocked", shape: "stop" },
  stale: { tone: "warn", word: "silent", shape: "clock" },
  completed: { tone: "good", word: "completed", shape: "check" },
  success: { tone: "good", word: "success", shape: "check" },
  passed: { tone: "good", word: "passed", shape: "check" },
  resolved: { tone: "good", word: "resolved", shape: "check" },
  partial_success: { tone: "warn", word: "partial", shape: "half" },
  partial: { tone: "warn", word: "partial", shape: "half" },
  needs_work: { tone: "warn", word: "needs work", shape: "half" },
  failed: { tone: "bad", word: "failed", shape: "cross" },
  skipped: { tone: "quiet", word: "skipped", shape: "slash" },
  abandoned: { tone: "quiet", word: "abandoned", shape: "slash" },
  aborted: { tone: "quiet", word: "aborted", shape: "slash" },
  removed: { tone: "quiet", word: "removed", shape: "slash" },
  open: { tone: "warn", word: "open", shape: "flag" },
  online: { tone: "good", word: "online", shape: "dot" },
  busy: { tone: "run", word: "busy", shape: "play" },
  offline: { tone: "quiet", word: "offline", shape: "slash" },
  idle: { tone: "quiet", word: "idle", shape: "ring" },
  // Agents that deepwork runs
  claimed: { tone: "quiet", word: "claimed", shape: "ring" },
  preparing: { tone: "run", word: "preparing", shape: "pencil" },
  running: { tone: "run", word: "running", shape: "play" },
  parked: { tone: "warn", word: "parked", shape: "pause" },
  checking: { tone: "run", word: "checking", shape: "shield" },
  reviewing: { tone: "run", word: "reviewing", shape: "eye" },
  landing: { tone: "run", word: "landing", shape: "flag" },
  done: { tone: "good", word: "done", shape: "check" },
  stalled: { tone: "bad", word: "stalled", shape: "clock" },
  handed_over: { tone: "warn", word: "handed over", shape: "unlink" },
  stopped: { tone: "quiet", word: "stopped", shape: "stop" },
  needs_person: { tone: "human", word: "needs you", shape: "shield" },
  // Landings and rewinds
  queued: { tone: "quiet", word: "queued", shape: "clock" },
  moving: { tone: "run", word: "moving the branch", shape: "flag" },
  returned: { tone: "warn", word: "sent back", shape: "unlink" },
  landed: { tone: "good", word: "landed", shape: "check" },
  cancelled: { tone: "quiet", word: "given up", shape: "slash" },
  stale_input: { tone: "warn", word: "stale input", shape: "unlink" },
  // Items on the home page
  landing_need: { tone: "human", word: "cannot land", shape: "flag" },
  parked_attempt: { tone: "human", word: "agent waits", shape: "pause" },
  agent_run: { tone: "human", word: "agents stopped", shape: "stop" },
  blocker: { tone: "warn", word: "blocker", shape: "flag" },
  approval: { tone: "human", word: "approval", shape: "shield" },
  manual_review: { tone: "human", word: "review requested", shape: "eye" },
  failed_task: { tone: "bad", word: "failed", shape: "cross" },
  partial_task: { tone: "warn", word: "partial", shape: "half" },
  stale_task: { tone: "warn", word: "silent", shape: "clock" },
  gate: { tone: "human", word: "needs work", shape: "shield" },
  review: { tone: "human", word: "review ended", shape: "eye" },
  lost_claim: { tone: "warn", word: "claim lost", shape: "unlink" },
  budget: { tone: "human", word: "budget used up", shape: "stop" },
  waiting_plan: { tone: "human", word: "paused", shape: "pause" },
};

export function getLook(status: string): Look {
  return LOOKS[status] ?? { tone: "quiet", word: status.replaceAll("_", " "), shape: "dot" };
}

export function Shape({ name }: { name: string }) {
  return (
    <svg class="shape" viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={SHAPES[name] ?? SHAPES.dot} />
    </svg>
  );
}

export function State({ status, word, isSmall }: { status: string; word?: string; isSmall?: boolean }) {
  const look = getLook(status);
  return (
    <span class={`state tone-${look.tone}${isSmall ? " small" : ""}`}>
      <Shape name={look.shape} />
      <span>{word ?? look.word}</span>
    </span>
  );
}

/** The shape alone; the word is a tooltip and available to screen readers. */
export function StateMark({ status }: { status: string }) {
  const look = getLook(status);
  return (
    <span class={`mark tone-${look.tone}`} title={look.word}>
      <Shape name={look.shape} />
      <span class="unseen">{look.word}</span>
    </span>
  );
}
