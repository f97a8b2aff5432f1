/** What the server answers about agents at work, written by hand: docs/howto/use-the-dashboard.md. */

import type { Action, AgentAttempt, ChangedFile } from "./shapes";

/** An agent at work. Tokens and dollars are missing while its vendor says nothing about them. */
export interface Lane extends Omit<AgentAttempt, "tokens" | "usd"> {
  vendor: string;
  model?: string | null;
  started_at?: string | null;
  tokens?: number | null;
  usd?: number | null;
  tool?: string | null;
  doing_since?: string | null;
  last_line?: string | null;
  context_tokens?: number | null;
  active_at?: string | null;
  quiet_since?: string | null;
  interrupted_by?: string | null;
  wish?: "pause" | "take" | "stop" | "continue" | null;
  actions: Action[];
}

export interface LanesAnswer {
  lanes: Lane[];
  total: number;
}

export type EntryKind = "prompt" | "session" | "said" | "thought" | "tool" | "result" | "output" | "note" | "limit" | "failure" | "end";

export interface TranscriptEntry {
  key: string;
  kind: EntryKind;
  text?: string | null;
  tool_id?: string | null;
  name?: string | null;
  is_error?: boolean | null;
  is_delta?: boolean | null;
}

export interface TranscriptAnswer {
  attempt_id: string;
  vendor: string;
  entries: TranscriptEntry[];
  first: string;
  last: string;
  has_earlier: boolean;
  is_over: boolean;
  reason?: string | null;
}

export interface TakeoverAnswer {
  host: string;
  folder?: string | null;
  command?: string | null;
  has_session: boolean;
  give_back: string;
}

export interface PatchAnswer {
  task_id: string;
  base?: string | null;
  is_running?: boolean | null;
  files: ChangedFile[];
  files_count: number;
  patch: string;
  truncated?: boolean | null;
  warning?: string | null;
}
