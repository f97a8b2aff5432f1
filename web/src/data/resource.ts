/** Data from the server for a view. It is reloaded when it changes; the old data stays visible meanwhile. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, NoResponse, read } from "./api";
import { connection, eventBuffer, listen } from "./live";
import type { Envelope } from "./shapes";

export interface Resource<T> {
  data: T | null;
  seq: number;
  error: ApiError | NoResponse | null;
  isLoading: boolean;
  reload: () => void;
}

/** Returns whether an event makes the data out of date. */
export type EventFilter = (event: Envelope) => boolean;

/** What an agent does now changes nothing but its own row, every few seconds. */
export const isProgress: EventFilter = (event) => event.type === "attempt:progress";

export const ofRun =
  (run: string): EventFilter =>
  (event) =>
    event.workflow_id === run && !isProgress(event);

export const anyOf =
  (...things: string[]): EventFilter =>
  (event) =>
    things.includes(event.type.split(":")[0]!);

/**
 * Reload immediately on the first event. After that, wait at least LEAST_PAUSE milliseconds and SHARE_OF_TIME
 * times the duration of the last read, so that the server has time for other clients.
 */
const LEAST_PAUSE = 400;
const SHARE_OF_TIME = 6;

/** How often what changes without an event is read again, in milliseconds: whether a process still drives a run. */
export const LOOK_AGAIN = 10_000;

export function useResource<T>(address: string | null, isAffected?: EventFilter | null, every?: number): Resource<T> {
  const [, redraw] = useState(0);
  const state = useRef<{ address: string | null; value: Resource<T> }>({ address: null, value: emptyResource() });
  if (state.current.address !== address) {
    state.current = { address, value: { ...emptyResource<T>(), isLoading: address !== null } };
  }
  const filter = useRef(isAffected);
  filter.current = isAffected;
  const mine = state.current;

  useEffect(() => {
    if (address === null) return;
    const control = new AbortController();
    let pause = LEAST_PAUSE;
    let last = 0;
    let isReading = false;
    let isWanted = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const show = (change: Partial<Resource<T>>) => {
      mine.value = { ...mine.value, ...change };
      redraw((n) => n + 1);
    };
    const load = async () => {
      if (isReading) {
        isWanted = true;
        return;
      }
      isReading = true;
      const began = performance.now();
      try {
        const answer = await read<T>(address, control.signal);
        show({ data: answer.data, seq: answer.seq, error: null, isLoading: false });
        // Events that arrived during the request.
        if (filter.current && answer.seq && eventBuffer.since(answer.seq)?.some(filter.current)) isWanted = true;
      } catch (error) {
        if (error instanceof ApiError || error instanceof NoResponse) show({ error, isLoading: false });
        else if (!(error instanceof DOMException)) throw error;
        isWanted = false;
      }
      isReading = false;
      last = performance.now();
      pause = Math.max(LEAST_PAUSE, (last - began) * SHARE_OF_TIME);
      if (isWanted && !control.signal.aborted) scheduleLoad();
    };
    const scheduleLoad = () => {
      isWanted = false;
      clearTimeout(timer);
      const wait = last ? Math.max(0, last + pause - performance.now()) : 0;
      timer = setTimeout(() => void load(), wait);
    };
    mine.value.reload = () => {
      show({ isLoading: true });
      void load();
    };
    void load();
    const off = listen((events, isResync) => {
      if (isResync || (filter.current && events.some(filter.current))) scheduleLoad();
    });
    // Retry a failed read when the server is reachable again.
    const offConnection = connection.subscribe((now) => {
      if (now === "live" && mine.value.error instanceof NoResponse) scheduleLoad();
    });
    const again = every ? setInterval(() => !document.hidden && connection.value === "live" && scheduleLoad(), every) : undefined;
    return () => {
      control.abort();
      clearInterval(again);
      clearTimeout(timer);
      off();
      offConnection();
    };
  }, [address]);

  return mine.value;
}

function emptyResource<T>(): Resource<T> {
  return { data: null, seq: 0, error: null, isLoading: false, reload: () => {} };
}
