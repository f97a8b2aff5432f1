/** Types of the server's answers, limited to the fields that pages use. */

import type { PhasePlace } from "../view/phases";

export type Kind = "track" | "plan" | "job";

export interface RunRef {
  id: string;
  kind: Kind;
  name: string;
}

export interface TaskCounts {
  total: number;
  done: number;
  failed: number;
  running: number;
}

/** What every interface says about a thing. */
export interface StateFields {
  state?: string | null;
  /** A code, or a code and a detail after a colon. */
  because?: string | null;
  /** The command that moves it on. */
  next?: string | null;
}

export interface RunLine extends RunRef, StateFields {
  objective?: string | null;
  status: string;
  profile?: string | null;
  phase?: PhasePlace | null;
  tasks: TaskCounts;
  blockers?: number;
  files_changed?: number | null;
  lines_added?: number | null;
  lines_removed?: number | null;
  tokens?: number | null;
  usd?: number | null;
  agents?: string[];
  last_milestone?: string | null;
  started_at?: string | null;
  ended_at?: string | null;
  updated_at?: string | null;
}

export interface Amounts {
  usd?: number | null;
  tokens?: number | null;
  minutes?: number | null;
}

export interface CheckLine {
  name: string;
  verdict?: string | null;
  at?: string | null;
  tests_run?: number | null;
  tests_skipped?: number | null;
  proof_id?: string | null;
  output_file?: string | null;
  waived_by?: string | null;
  waive_reason?: string | null;
}

export interface Evidence {
  budget?: Amounts | null;
  spent?: Amounts | null;
  sources?: Record<string, number> | null;
  reason?: string | null;
  max_unreviewed?: number | null;
  checks?: CheckLine[] | null;
  approvals?: { id: string; kind: string; asked_at: string }[] | null;
}

export interface Ask {
  name: string;
  label: string;
  optional?: boolean | null;
}

export interface Action {
  label: string;
  tool: string;
  arguments: Record<string, unknown>;
  asks?: Ask[];
  /** The heading of the dialog, if not the label. */
  title?: string | null;
}

export interface Need {
  kind: string;
  id: string;
  title: string;
  detail?: string | null;
  run?: RunRef | null;
  task?: { id: string; name: string } | null;
  agent_name?: string | null;
  since: string;
  actions?: Action[];
}

export interface HomeAnswer {
  needs_you: Need[];
  needs_you_total: number;
  running: RunLine[];
  recent: RunLine[];
  counts: {
    running: number; blocked: number; blockers: number; completed: number; failed: number; total: number; open: number;
    /** Runs that have not ended, and the tasks of plans, by state. */
    states: Record<string, number>;
    tasks: Record<string, number>;
  };
  last_seq: number;
}

export interface RunsAnswer {
  runs: RunLine[];
  total: number;
  cursor: string | null;
}

export interface Phase {
  number: number;
  name: string;
  status: string;
  is_parallel?: boolean;
  tasks: { total: number; completed: number; failed: number; in_progress: number };
  started_at?: string | null;
  completed_at?: string | null;
}

export interface Criterion {
  name?: string | null;
  criterion?: string | null;
  passed: boolean;
  feedback?: string | null;
}

export interface GateDecision {
  decision: string;
  by: string;
  at: string;
  text?: string | null;
}

export interface Attempt {
  at?: string | null;
  passed: boolean;
  criteria?: Criterion[];
  feedback?: string | null;
  is_self_review?: boolean | null;
}

export interface Finding {
  severity: string;
  claim: string;
  file?: string | null;
  line?: number | null;
  failure?: string | null;
  effect: string;
}

export interface ReviewRound {
  rule: string;
  round: number;
  passed: boolean;
  reviewer?: string | null;
  findings: Finding[];
  disputed: boolean;
  at: string;
  is_over: boolean;
}

export interface Step extends StateFields {
  id: string;
  status: string;
  started_at?: string | null;
  completed_at?: string | null;
  outputs?: Record<string, unknown> | null;
  notes?: string | null;
  attempts?: Attempt[];
  attempts_total?: number;
  override_reason?: string | null;
  gate_decisions?: GateDecision[];
  rounds?: ReviewRound[] | null;
  waiting_reason?: string | null;
}

export interface RunDetails extends RunLine {
  evidence?: Evidence | null;
  issues?: number;
  scope?: string | null;
  constraints?: string | null;
  summary?: string | null;
  outcome?: string | null;
  achievements?: string[] | null;
  limitations?: string[] | null;
  repository_path?: string | null;
  created_by?: string | null;
  phases?: Phase[];
  plan?: {
    approach?: string | null;
    risks?: unknown[] | null;
    assumptions?: unknown[] | null;
    max_parallel_tasks?: number | null;
    history?: HistoryLine[];
  } | null;
  session?: { stack?: { workflow: string; step: string }[]; step_id?: string | null; steps: Step[] } | null;
  workspaces?: Workspace[] | null;
  actions?: Action[];
}

export interface HistoryLine {
  at: string;
  what: string;
  task_id?: string | null;
  before?: string | null;
  after?: string | null;
  reason?: string | null;
  by_whom?: string | null;
}

export interface Workspace {
  id: string;
  path?: string | null;
  branch?: string | null;
  status?: string | null;
  actions?: Action[];
}

export interface TasksAnswer {
  columns: string[];
  rows: unknown[][];
  total: number;
}

export interface GraphNode extends Pick<StateFields, "state"> {
  id: string;
  /** Only tasks have a page. */
  kind?: "task" | "phase" | "level" | "fold";
  name: string;
  status: string;
  level?: number;
  group?: string | null;
  is_ready?: boolean;
  is_blocked?: boolean;
}

export interface SentNode extends GraphNode {
  /** The ids of similar tasks, which a large graph sends as one node. */
  members?: string[];
}

export interface GraphAnswer {
  nodes: SentNode[];
  edges: [string, string][];
  folded: boolean;
}

export interface ChangedFile {
  path: string;
  status: string;
  added?: number | null;
  removed?: number | null;
  tasks: { id: string; name: string; attribution: string }[];
}

export interface FilesAnswer {
  files: ChangedFile[];
  total: number;
  cursor?: string | null;
}

export interface Note {
  id: string;
  workflow_id?: string;
  task_id?: string | null;
  task_name?: string | null;
  agent_name?: string | null;
  created_at: string;
  run?: RunRef;
}

export interface Decision extends Note {
  category: string;
  question: string;
  options_considered?: string[];
  chosen: string;
  reasoning?: string | null;
  trade_offs?: string | null;
}

export interface Issue extends Note {
  type: string;
  description: string;
  resolution?: string | null;
  requires_human_review?: boolean;
  resolved_at?: string | null;
  resolved_by?: string | null;
  resolution_note?: string | null;
  actions?: Action[];
}

export interface Milestone extends Note {
  message: string;
  progress?: number | null;
  metadata?: { verdict?: unknown; by?: unknown } | null;
}

export interface Envelope {
  seq: number;
  ts: string;
  type: string;
  workflow_id: string | null;
  data: Record<string, unknown>;
}

export interface EventsAnswer {
  events: Envelope[];
  total?: number;
  oldest_seq?: number | null;
  last_seq?: number | null;
  /** Of the runs, planned tasks and agents in the events, by id. */
  names?: Record<string, string>;
}

export interface Checkpoint {
  id: string;
  sequence?: number;
  type: string;
  summary: string;
  detail?: Record<string, unknown> | null;
  files_changed?: string[];
  agent_id?: string | null;
  created_at: string | number;
}

export interface RelatedTask {
  id: string;
  name: string;
  status?: string | null;
}

export interface TaskAnswer {
  evidence?: Evidence | null;
  task: Record<string, unknown> & { id: string; name: string; status: string };
  run: RunRef;
  parents?: { id: string; name: string }[];
  children?: RelatedTask[];
  depends_on?: RelatedTask[] | null;
  dependents?: RelatedTask[] | null;
  commits?: Record<string, unknown>[] | null;
  milestones?: Milestone[];
  decisions?: Decision[];
  issues?: Issue[];
  checkpoints?: Checkpoint[];
  attempts?: AgentAttempt[] | null;
  words?: Word[] | null;
  verification?: { scope_match?: boolean; unexpected_files?: string[]; warnings?: string[] } | null;
  files_count?: number;
  actions?: Action[];
}

/** What a person told whoever works on a task, and whether it arrived. */
export interface Word {
  id: string;
  at: string;
  by: string;
  text: string;
  delivered_at?: string | null;
  attempt_id?: string | null;
  start?: number | null;
  reaches?: "next_call" | "next_start" | "next_agent" | "refusal" | "never" | null;
}

/** One agent's work on one task, started by deepwork. */
export interface AgentAttempt extends StateFields {
  id: string;
  run_id: string;
  task_id: string;
  task_name: string;
  workflow?: RunRef | null;
  number: number;
  profile: string;
  stage: string;
  parked_for?: string | null;
  reason?: string | null;
  not_before?: string | null;
  host: string;
  tree?: string | null;
  branch?: string | null;
  starts: number;
  resumes: number;
  tokens: number;
  usd: number;
  usd_source?: string | null;
  now_doing?: string | null;
  outcome?: string | null;
  created_at: string;
  updated_at: string;
  ended_at?: string | null;
}

export interface AgentRun extends StateFields {
  id: string;
  workflow?: RunRef | null;
  job?: string | null;
  goal?: string | null;
  status: string;
  reason?: string | null;
  chain: string[];
  max_usd?: number | null;
  until?: string | null;
  usd?: number | null;
  tokens: number;
  created_by: string;
  created_at: string;
  ended_at?: string | null;
  attempts: AgentAttempt[];
  attempts_total?: number | null;
  hosts?: Record<string, number> | null;
  actions?: Action[];
}

export interface AgentRunsAnswer {
  runs: AgentRun[];
  total: number;
  cursor: string | null;
}

export interface OutputAnswer {
  start: number;
  stream: string;
  text: string;
  size?: number | null;
  reason?: string | null;
}

export interface FileDiff {
  path: string;
  status: string;
  attribution?: string;
  added?: number | null;
  removed?: number | null;
  is_binary?: boolean | null;
  renamed_from?: string | null;
  shared_with?: string[] | null;
  diff?: string | null;
  truncated?: boolean | null;
}

export interface DiffAnswer {
  task_id: string;
  files: FileDiff[];
  files_count?: number;
  warning?: string | null;
}

export interface AgentLine {
  id: string;
  name: string;
  runtime?: string;
  role?: string;
  status: string;
  capabilities?: string[];
  current_task_id?: string | null;
  workspace_path?: string | null;
  last_heartbeat?: number | string | null;
  created_at?: number | string | null;
  holds?: { id: string; name: string; run?: RunRef; since?: string; files?: string[] }[];
  unread?: number;
  tasks_done?: number | null;
  tasks_failed?: number | null;
  tokens?: number | null;
  actions?: Action[];
}

export interface ErrorBody {
  code: string;
  message: string;
  recoverable?: boolean;
  suggestion?: string;
  /** The proof that the call lacks: it can be made again with one. */
  proof?: string;
  /** The approval that the call waits for. */
  approval?: { id: string };
}

/** One task's way to a branch. */
export interface Landing extends StateFields {
  id: string;
  kind: string;
  status: string;
  problem?: string | null;
  reason?: string | null;
  workflow_id?: string | null;
  task_id?: string | null;
  title: string;
  target: string;
  branch?: string | null;
  source_branch?: string | null;
  source_commit?: string | null;
  base_commit?: string | null;
  merge_commit?: string | null;
  attempt_id?: string | null;
  agent_id?: string | null;
  returns: number;
  host: string;
  created_by: string;
  created_at: string;
  updated_at: string;
  ended_at?: string | null;
  /** Its place among the landings that wait for the same branch; 1 is next. */
  position?: number | null;
  checks?: CheckLine[] | null;
  /** The approval that it waits for. */
  approval_id?: string | null;
  actions?: Action[];
}

export interface LandingsAnswer {
  landings: Landing[];
  total: number;
  cursor: string | null;
}

export interface LandResult {
  landings: Landing[];
  skipped?: { task_id: string; name: string; reason: string; refused?: boolean | null }[] | null;
  exit_code: number;
}

export interface RewindPreview {
  task_id: string;
  task: string;
  workflow_id: string;
  status: string;
  to: string;
  dependents: string;
  digest: string;
  possible: boolean;
  files: { path: string; tree: string; what: string }[];
  files_total: number;
  in_the_way: { path: string; reason: string }[];
  in_the_way_total: number;
  branches: { branch: string; tree?: string | null; now: string; then?: string | null }[];
  begun_dependents: { id: string; name: string; status: string; tree?: string | null }[];
  reverts: { commit: string; branch: string; task: string; merge_into?: string | null }[];
  cannot_undo: string[];
  held_by?: string | null;
  targets: string[];
}

/** A rewind of a task, or the undoing of one. */
export interface Rewind {
  id: string;
  task_id: string;
  workflow_id: string;
  to: string;
  dependents: string;
  stage: string;
  undoes?: string | null;
  undone_by?: string | null;
  files: number;
  rescue_branches: string[];
  reverted?: string[] | null;
  merges?: { branch: string; into: string }[] | null;
  kept?: string[] | null;
  created_by: string;
  created_at: number;
  updated_at: number;
  ended_at?: number | null;
  tasks?: { task_id: string; role: string; status_before?: string | null; outcome_before?: string | null }[] | null;
}

/** A task that made a commit. */
export interface WhyLink {
  task_id: string;
  known_by: string;
  certainty: string;
  attempt_id?: string | null;
  agent_id?: string | null;
}

export interface CommitOrigin {
  commit: string;
  subject: string;
  author: string;
  committed_at: string;
  lines?: number[][] | null;
  path?: string | null;
  links: WhyLink[];
  problems?: string[] | null;
  note?: string | null;
}

export interface TaskChain {
  id: string;
  kind: string;
  name: string;
  status?: string | null;
  description?: string | null;
  outcome?: string | null;
  goal?: { kind: string; id: string; name: string; text?: string | null } | null;
  decisions: { id: string; question: string; chosen: string; reasoning?: string | null }[];
  checks: { check: string; verdict: string; proof_id: string; created_at: string; waived_by?: string | null }[];
  approvals: { id: string; kind: string; status: string; decided_by?: string | null; decided_at?: string | null; comment?: string | null }[];
  attempts: WhyAttempt[];
  agents: { id: string; name: string; runtime?: string | null; role?: string | null }[];
  models: string[];
  tokens?: number | null;
  usd?: number | null;
  landings?: { id: string; status: string; target: string; branch?: string | null; merge_commit?: string | null }[] | null;
}

export interface WhyAttempt {
  id: string;
  number: number;
  stage: string;
  agent_id: string;
  profile: string;
  vendor: string;
  model?: string | null;
  tokens: number;
  usd: number;
  usd_source?: string | null;
  host: string;
  transcript?: string | null;
  made_it: boolean;
}

/** Why code exists: its commits, and the chain behind each task that made them. */
export interface WhyAnswer {
  question: string;
  commits: CommitOrigin[];
  commits_total: number;
  uncommitted?: number[][] | null;
  running_tasks?: string[] | null;
  tasks: TaskChain[];
  /** Of a line of a task's diff: the task, if it changed the line, and whether that is certain. */
  changed_by?: string | null;
  changed_by_certainty?: string | null;
}
