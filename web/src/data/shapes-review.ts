/** Types of the answers about reviews of finished work. */

import type { Amounts, CheckLine, RunRef, StateFields } from "./shapes";

export interface WeakLine {
  side: "old" | "new";
  line: number;
  text: string;
}

export interface Weakened {
  kind: string;
  path: string;
  count: number;
  lines?: WeakLine[] | null;
}

export interface WorkRound {
  number: number;
  done_at?: string | null;
  attempt_id?: string | null;
  agent?: string | null;
  tree?: string | null;
  comments: number;
  open: number;
}

export interface ReviewEntry extends StateFields {
  id: string;
  name: string;
  run: RunRef;
  done_at?: string | null;
  agent?: string | null;
  attempts: number;
  files_count?: number | null;
  added?: number | null;
  removed?: number | null;
  weakened?: Weakened[] | null;
  not_searched?: boolean | null;
  warning?: string | null;
  checks: CheckLine[];
  rounds: WorkRound[];
  comments: { unsent: number; open: number; delivered: number; fixed: number };
  spent?: Amounts | null;
  /** Why it should be looked at alone; empty: small, checked, and it weakens no test. */
  risks: string[];
  digest: string;
  approval_id?: string | null;
  approval_digest?: string | null;
  reviewed_by?: string | null;
  reviewed_at?: string | null;
  has_landed: boolean;
}

export interface ReviewQueue {
  entries: ReviewEntry[];
  unreviewed: number;
  finished: number;
  total: number;
  cursor: string | null;
}

export interface Comment {
  id: string;
  task_id: string;
  attempt_id?: string | null;
  path: string;
  side: "old" | "new";
  line: number;
  line_text: string;
  text: string;
  by: string;
  created_at: string;
  state: "open" | "delivered" | "fixed" | "withdrawn";
  sent_at?: string | null;
  delivered_at?: string | null;
  closed_by?: string | null;
}

export interface TaskReview {
  entry: ReviewEntry;
  description: string;
  outcome?: string | null;
  comments: Comment[];
  outputs: { check: string; verdict: string; tests_run?: number | null; proof_id?: string | null; output?: string | null }[];
}

export interface ReviewFile {
  path: string;
  status: string;
  added?: number | null;
  removed?: number | null;
  is_binary?: boolean | null;
}

export interface ReviewPatch {
  id: string;
  base?: string | null;
  tree?: string | null;
  files: ReviewFile[];
  files_count: number;
  patch: string;
  cursor: string | null;
  truncated?: boolean | null;
  warning?: string | null;
}

export interface SentBack {
  task_id: string;
  comments: Comment[];
  reaches?: string | null;
  reopened: boolean;
  next?: string | null;
}
