/** Answers about one run as it is now, its landing queue, and what was spent. */

import type { Action, Landing, SentNode, StateFields } from "./shapes";

export interface NowTask extends StateFields {
  id: string;
  name: string;
  phase?: number | null;
  agent?: string | null;
  attempt_id?: string | null;
  attempts?: number | null;
  since?: number | null;
  note?: string | null;
  usd?: number | null;
  tokens?: number | null;
  blocks?: number | null;
  actions?: Action[] | null;
}

export interface Lane {
  name: "failed" | "needs_you" | "running" | "ready" | "waiting" | "done";
  total: number;
  /** None in a lane that is folded. */
  tasks?: NowTask[] | null;
}

export interface RunHead extends StateFields {
  id: string;
  status: string;
  reason?: string | null;
  usd?: number | null;
  max_usd?: number | null;
  until?: string | null;
  tokens: number;
  models: string[];
  working: number;
  agents: number;
  actions: Action[];
}

export interface Range {
  low: number;
  likely: number;
  high: number;
}

export interface Forecast {
  tasks_left: number;
  based_on: number;
  usd?: Range | null;
  minutes?: Range | null;
  basis?: string | null;
  unknown?: string | null;
  tasks_until_limit?: number | null;
}

export interface WorkNow {
  lanes: Lane[];
  counts: Record<string, number>;
  run?: RunHead | null;
  forecast?: Forecast | null;
}

export interface DrawnNode extends SentNode {
  states?: Record<string, number> | null;
  agent?: string | null;
  since?: number | null;
}

export interface DrawnGraph {
  nodes: DrawnNode[];
  edges: [string, string][];
  folded: boolean;
}

export interface QueuedLanding extends Landing {
  culprit?: "work" | "branch" | null;
  red?: { check: string; verdict: string; proof_id?: string | null; log?: string | null }[] | null;
  conflict?: { files: string[]; others?: { commit: string; subject: string; landing_id?: string | null; task_id?: string | null }[] | null } | null;
  same_files?: string[] | null;
}

export interface QueueAnswer {
  landings: QueuedLanding[];
  landed?: number | null;
}

export interface SpendLine {
  name?: string | null;
  usd: number;
  tokens: number;
  reports: number;
  sources: string[];
  budget?: { usd?: number; tokens?: number; minutes?: number } | null;
  [dimension: string]: unknown;
}

export interface SpendAnswer {
  by: string;
  spending: SpendLine[];
  total: { usd?: number | null; tokens?: number | null };
  day?: { day: string; budget: { usd?: number; tokens?: number; minutes?: number }; spent: { usd: number; tokens: number; minutes: number } } | null;
}

export interface VendorWindow {
  vendor: string;
  profile: string;
  host: string;
  waiting: number;
  ends_at?: string | null;
  next_try_at?: string | null;
  scope?: string | null;
  reason?: string | null;
}
