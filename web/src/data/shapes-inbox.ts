/** What the inbox answers. */

import type { Action, Amounts, RunRef } from "./shapes";

export interface ItemPart {
  id: string;
  about: string;
  title: string;
  task?: { id: string; name: string } | null;
  actions: Action[];
}

export interface InboxItem extends ItemPart {
  kind: string;
  detail: string;
  because: string;
  next?: string | null;
  since: string;
  run?: RunRef | null;
  agent_name?: string | null;
  agents: number;
  tasks?: number | null;
  usd?: number | null;
  /** What it stands for, if several have one cause. */
  same?: ItemPart[] | null;
  owner?: string | null;
  owner_name?: string | null;
  note?: string | null;
  marked_by?: string | null;
  snoozed_until?: string | null;
  cleared_at?: string | null;
}

export interface InboxAnswer {
  items: InboxItem[];
  total: number;
  counts: { open: number; snoozed: number; given: number; cleared: number; folded: number };
  last_seq: number;
}

export interface InboxPeople {
  people: { id: string; name: string }[];
  agents: { id: string; name: string; role?: string | null }[];
}

export interface ItemCheck {
  check: string;
  verdict: string;
  failing?: string[] | null;
  /** The part about the first test that failed, with escape sequences of colors. */
  excerpt?: string | null;
  output?: string | null;
  tests_run?: number | null;
  duration_ms?: number | null;
}

export interface InboxEvidence {
  id: string;
  question: string;
  facts: { name: string; value: string }[];
  outcome?: string | null;
  checks: ItemCheck[];
  findings: { text: string; by?: string | null; passed?: boolean | null }[];
  last_words?: { text: string; agent?: string | null; at: string; attempt_id?: string | null } | null;
  base?: string | null;
  compared_with?: string | null;
  files?: { path: string; status: string; added?: number | null; removed?: number | null; is_binary?: boolean | null }[] | null;
  files_count?: number | null;
  patch?: string | null;
  truncated?: boolean | null;
  weakened?: { path: string; what?: string; [more: string]: unknown }[] | null;
  warning?: string | null;
  shown?: Record<string, unknown> | null;
  spent?: Amounts | null;
  budget?: Amounts | null;
  blocks: { agents: string[]; tasks: string[]; tasks_total: number };
  commands: string[];
}
