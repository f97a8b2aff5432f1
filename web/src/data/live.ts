/** The stream of events: one socket, caught up by number after every cut. */

import { signal } from "@preact/signals";
import { ApiError, NoAnswer, read } from "./api";
import { Ledger } from "./ledger";
import type { Envelope } from "./shapes";

export type Connection = "connecting" | "live" | "gone" | "offline" | "login";

export const connection = signal<Connection>("connecting");
/** When the next attempt is made, while the server is gone. */
export const nextTry = signal(0);
export const lastHeard = signal(Date.now());
/** How long the last event was on its way, in milliseconds. */
export const lag = signal<number | null>(null);
export const me = signal<{ name?: string; scope?: string }>({});

export const ledger = new Ledger();

type Listener = (events: Envelope[], isResync: boolean) => void;
const listeners = new Set<Listener>();

/** Be told of events, in batches, once per frame at most; a resync means: read everything anew. */
export function listen(listener: Listener): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const SOCKET_TRIES = 2;
let failures = 0;
/** How often in a row a socket did not open although the server answered. */
let refused = 0;
let timer: ReturnType<typeof setTimeout> | undefined;
let stop: (() => void) | undefined;
let batch: Envelope[] = [];
let isBatching = false;

export function start(): void {
  addEventListener("online", tryNow);
  addEventListener("offline", () => (connection.value = "offline"));
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && connection.value !== "live") tryNow();
  });
  void open();
}

export function tryNow(): void {
  if (connection.value === "live") return;
  clearTimeout(timer);
  stop?.();
  void open();
}

async function open(): Promise<void> {
  try {
    const who = await read<{ name?: string; scope?: string }>("/me");
    me.value = who.data;
    // The first time: begin where the store is now. Every page reads its state at that point or later.
    if (ledger.last === 0) ledger.restart((await read("/runs?limit=1")).seq);
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      connection.value = "login";
      return;
    }
    if (error instanceof NoAnswer || (error instanceof ApiError && error.status >= 500)) return again();
  }
  if (refused >= SOCKET_TRIES) openStream();
  else openSocket();
}

function openSocket(): void {
  const scheme = location.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(`${scheme}//${location.host}/ws?since=${ledger.last}`);
  let isOver = false;
  refused += 1;
  const over = () => {
    if (isOver) return;
    isOver = true;
    again();
  };
  stop = () => {
    isOver = true;
    socket.close();
  };
  socket.onopen = () => {
    refused = 0;
    arrived();
  };
  socket.onmessage = (message) => {
    // Two sockets may overlap for a moment; the ledger takes each event once.
    hear(JSON.parse(message.data as string) as Envelope);
  };
  socket.onclose = over;
  socket.onerror = over;
}

/** Where sockets do not get through, a proxy perhaps, server-sent events do. */
function openStream(): void {
  const stream = new EventSource(`/api/v1/events?since=${ledger.last}`);
  stop = () => stream.close();
  stream.onopen = arrived;
  stream.onmessage = (message) => hear(JSON.parse(message.data as string) as Envelope);
  stream.addEventListener("resync_required", (message) => hear(JSON.parse((message as MessageEvent<string>).data) as Envelope));
  stream.onerror = () => {
    stream.close();
    refused = SOCKET_TRIES - 1; // whatever was in the way may be gone: try a socket once more
    again();
  };
}

function arrived(): void {
  failures = 0;
  connection.value = "live";
  lastHeard.value = Date.now();
}

function again(): void {
  failures += 1;
  connection.value = navigator.onLine ? "gone" : "offline";
  const wait = Math.min(8000, 250 * 2 ** failures) * (0.75 + Math.random() / 2);
  nextTry.value = Date.now() + wait;
  clearTimeout(timer);
  timer = setTimeout(() => void open(), wait);
}

function hear(event: Envelope): void {
  lastHeard.value = Date.now();
  if (event.type === "resync_required") {
    ledger.restart(Number((event as unknown as { resume_at: number }).resume_at) || 0);
    for (const listener of listeners) listener([], true);
    return;
  }
  if (event.seq > ledger.last) lag.value = Math.max(0, Date.now() - Date.parse(event.ts));
  batch.push(event);
  if (isBatching) return;
  isBatching = true;
  // A hidden page gets no frames.
  if (document.hidden) setTimeout(tell, 50);
  else requestAnimationFrame(tell);
}

function tell(): void {
  isBatching = false;
  const fresh = ledger.take(batch);
  batch = [];
  if (fresh.length) for (const listener of [...listeners]) listener(fresh, false);
}
