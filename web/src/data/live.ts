/** The event stream: one WebSocket that resumes at the last event number after every interruption. */

import { signal } from "@preact/signals";
import { ApiError, NoResponse, read } from "./api";
import { EventBuffer } from "./event-buffer";
import type { Envelope } from "./shapes";

/** `failed`: the server answers, but can no longer read what it writes. */
export type Connection = "connecting" | "live" | "gone" | "failed" | "offline" | "login";

export const connection = signal<Connection>("connecting");
/** When the next attempt to connect is made, while the server is unreachable. */
export const nextTry = signal(0);
export const lastReceived = signal(Date.now());
/** The delivery time of the last event, in milliseconds. */
export const lag = signal<number | null>(null);
/** The caller, and the actions that the server offers to it. */
export type Me = { name?: string; scope?: string; is_person?: boolean; actions?: string[] };
export const me = signal<Me>({});

export const eventBuffer = new EventBuffer();

type Listener = (events: Envelope[], isResync: boolean) => void;
const listeners = new Set<Listener>();

/** Subscribe to events. They arrive in batches, at most one per frame; after a resync, reload everything. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const SOCKET_TRIES = 2;
let failures = 0;
/** How many times in a row a socket did not open although the server responded. */
let failedSockets = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let stop: (() => void) | undefined;
let batch: Envelope[] = [];
let isBatching = false;

export function start(): void {
  addEventListener("online", reconnectNow);
  addEventListener("offline", () => (connection.value = "offline"));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && connection.value !== "live") reconnectNow();
  });
  setInterval(() => void check(), CHECKED_EVERY);
  void connect();
}

/** How often a quiet connection is checked, in milliseconds: a stopped server leaves it open. */
const CHECKED_EVERY = 10_000;
const ANSWERS_WITHIN = 8000;

/** Whether the server reads what it writes; null if it does not answer. */
async function askHealth(): Promise<boolean | null> {
  try {
    const answer = await fetch("/health", { headers: { Accept: "application/json" }, cache: "no-store", signal: AbortSignal.timeout(ANSWERS_WITHIN) });
    return answer.ok;
  } catch {
    return null;
  }
}

async function check(): Promise<void> {
  if (connection.value !== "live" || document.hidden || Date.now() - lastReceived.value < CHECKED_EVERY) return;
  const asked = lastReceived.value;
  if (await askHealth()) {
    lastReceived.value = Date.now();
    return;
  }
  if (connection.value !== "live" || lastReceived.value !== asked) return;
  stop?.();
  scheduleReconnect();
}

export function reconnectNow(): void {
  if (connection.value === "live") return;
  clearTimeout(timer);
  stop?.();
  void connect();
}

async function connect(): Promise<void> {
  try {
    const who = await read<Me>("/me");
    me.value = who.data;
    // The first time, start at the newest event: every page loads a state that includes it.
    if (eventBuffer.last === 0) eventBuffer.restart((await read("/runs?limit=1")).seq);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      connection.value = "login";
      return;
    }
    if (error instanceof NoResponse || (error instanceof ApiError && error.status >= 500)) return scheduleReconnect();
  }
  if (failedSockets >= SOCKET_TRIES) openStream();
  else openSocket();
}

function openSocket(): void {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}/ws?since=${eventBuffer.last}`);
  let isOver = false;
  failedSockets += 1;
  const over = () => {
    if (isOver) return;
    isOver = true;
    scheduleReconnect();
  };
  stop = () => {
    isOver = true;
    socket.close();
  };
  socket.onopen = () => {
    failedSockets = 0;
    onConnected();
  };
  socket.onmessage = (message) => {
    // Two sockets may overlap briefly; the buffer accepts each event once.
    receive(JSON.parse(message.data as string) as Envelope);
  };
  socket.onclose = over;
  socket.onerror = over;
}

/** Server-sent events, for networks where a proxy blocks WebSockets. */
function openStream(): void {
  const stream = new EventSource(`/api/v1/events?since=${eventBuffer.last}`);
  stop = () => stream.close();
  stream.onopen = onConnected;
  stream.onmessage = (message) => receive(JSON.parse(message.data as string) as Envelope);
  stream.addEventListener("resync_required", (message) => receive(JSON.parse((message as MessageEvent<string>).data) as Envelope));
  stream.onerror = () => {
    stream.close();
    failedSockets = SOCKET_TRIES - 1; // the obstacle may be gone: try a socket once more
    scheduleReconnect();
  };
}

function onConnected(): void {
  failures = 0;
  connection.value = "live";
  lastReceived.value = Date.now();
}

function scheduleReconnect(): void {
  failures += 1;
  connection.value = navigator.onLine ? (connection.value === "failed" ? "failed" : "gone") : "offline";
  void askHealth().then((isWell) => {
    if (connection.value === "gone" || connection.value === "failed") connection.value = isWell === false ? "failed" : "gone";
  });
  const wait = Math.min(8000, 250 * 2 ** failures) * (0.75 + Math.random() / 2);
  nextTry.value = Date.now() + wait;
  clearTimeout(timer);
  timer = setTimeout(() => void connect(), wait);
}

function receive(event: Envelope): void {
  lastReceived.value = Date.now();
  if (event.type === "resync_required") {
    eventBuffer.restart(Number((event as unknown as { resume_at: number }).resume_at) || 0);
    for (const listener of listeners) listener([], true);
    return;
  }
  if (event.seq > eventBuffer.last) lag.value = Math.max(0, Date.now() - Date.parse(event.ts));
  batch.push(event);
  if (isBatching) return;
  isBatching = true;
  // A hidden page gets no animation frames.
  if (document.hidden) setTimeout(notifyListeners, 50);
  else requestAnimationFrame(notifyListeners);
}

function notifyListeners(): void {
  isBatching = false;
  const fresh = eventBuffer.add(batch);
  batch = [];
  if (fresh.length) for (const listener of [...listeners]) listener(fresh, false);
}
