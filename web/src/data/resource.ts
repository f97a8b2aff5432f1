/** What a view shows of the server: read, kept while it is read again, and read again when it changed. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, NoAnswer, read } from "./api";
import { connection, ledger, listen } from "./live";
import type { Envelope } from "./shapes";

export interface Resource<T> {
  data: T | null;
  seq: number;
  error: ApiError | NoAnswer | null;
  isLoading: boolean;
  reload: () => void;
}

/** Whether an event makes what is shown out of date. */
export type Concerns = (event: Envelope) => boolean;

export const of =
  (run: string): Concerns =>
  (event) =>
    event.workflow_id === run;

export const anyOf =
  (...things: string[]): Concerns =>
  (event) =>
    things.includes(event.type.split(":")[0]!);

/** At once for the first event, then at most so often that the server has time for others. */
const LEAST_PAUSE = 400;
const SHARE_OF_TIME = 6;

export function useResource<T>(address: string | null, concerns?: Concerns | null): Resource<T> {
  const [, redraw] = useState(0);
  const state = useRef<{ address: string | null; value: Resource<T> }>({ address: null, value: nothing() });
  if (state.current.address !== address) {
    state.current = { address, value: { ...nothing<T>(), isLoading: address !== null } };
  }
  const concern = useRef(concerns);
  concern.current = concerns;
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
        // What was told while the answer was on its way.
        if (concern.current && answer.seq && ledger.since(answer.seq)?.some(concern.current)) isWanted = true;
      } catch (error) {
        if (error instanceof ApiError || error instanceof NoAnswer) show({ error, isLoading: false });
        else if (!(error instanceof DOMException)) throw error;
        isWanted = false;
      }
      isReading = false;
      last = performance.now();
      pause = Math.max(LEAST_PAUSE, (last - began) * SHARE_OF_TIME);
      if (isWanted && !control.signal.aborted) soon();
    };
    const soon = () => {
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
      if (isResync || (concern.current && events.some(concern.current))) soon();
    });
    // What could not be read while the server was gone is read when it is back.
    const offConnection = connection.subscribe((now) => {
      if (now === "live" && mine.value.error instanceof NoAnswer) soon();
    });
    return () => {
      control.abort();
      clearTimeout(timer);
      off();
      offConnection();
    };
  }, [address]);

  return mine.value;
}

function nothing<T>(): Resource<T> {
  return { data: null, seq: 0, error: null, isLoading: false, reload: () => {} };
}
