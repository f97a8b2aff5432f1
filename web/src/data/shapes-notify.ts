/** Answers about notifications, and about what happened while somebody was away. */

import type { RunRef } from "./shapes";

export interface Channel {
  id: string;
  kind: "push" | "webhook" | "ntfy" | "command";
  name: string;
  to: string;
  added_at: string;
  told_at?: string;
  failing_since?: string;
  problem?: string;
  next_at?: string;
  person?: string;
}

export interface NotificationsAnswer {
  channels: Channel[];
  quiet?: { begins: string; ends: string; zone?: string };
  says_content: boolean;
  delay_seconds: number;
  link?: string;
  push_hosts: string[];
  can_push: boolean;
}

export interface SinceLine {
  kind: "task" | "landing" | "session" | "attempt" | "decision" | "approval";
  id: string;
  title: string;
  at: string;
  by?: string;
  detail: string;
  run?: RunRef;
}

export interface SinceGroup {
  total: number;
  items: SinceLine[];
}

export type SinceName = "landed" | "done" | "failed" | "parked" | "decided";

export interface SinceAnswer extends Record<SinceName, SinceGroup> {
  since: string;
  until: string;
  is_back: boolean;
  is_kept: boolean;
  spent: { usd: number; tokens: number };
  total: number;
}
