/** Reads the transcript of an attempt: its end first, then what follows, and what is before it when somebody asks. */

import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, NoResponse, read } from "./api";
import { connection, listen } from "./live";
import type { TranscriptAnswer, TranscriptEntry } from "./shapes-live";

const AGAIN = 2000;
/** Pages that one search reads at most. */
const MOST_PAGES = 60;

export interface TranscriptState {
  entries: readonly TranscriptEntry[];
  hasEarlier: boolean;
  isLoading: boolean;
  error: Error | null;
  reason: string | null;
  /** Reads what is before; `all`: up to the beginning, as far as that is reasonable. */
  loadEarlier: (all?: boolean) => Promise<void>;
}

interface Known {
  entries: TranscriptEntry[];
  first: string;
  last: string;
  hasEarlier: boolean;
  isOver: boolean;
  reason: string | null;
}

export function useTranscript(id: string): TranscriptState {
  const known = useRef<Known | null>(null);
  const isReading = useRef(false);
  const [state, setState] = useState<{ isLoading: boolean; error: Error | null; version: number }>({ isLoading: true, error: null, version: 0 });
  const alive = useRef(true);

  const show = (error: Error | null = null) => alive.current && setState((old) => ({ isLoading: false, error, version: old.version + 1 }));
  const fetchPage = async (query: string) => (await read<TranscriptAnswer>(`/runner/attempts/${encodeURIComponent(id)}/transcript${query}`)).data;

  async function exclusively(work: () => Promise<boolean>): Promise<void> {
    if (isReading.current) return;
    isReading.current = true;
    try {
      if (await work()) show();
    } catch (error) {
      if (!(error instanceof ApiError || error instanceof NoResponse)) throw error;
      show(error);
    } finally {
      isReading.current = false;
    }
  }

  async function follow(): Promise<boolean> {
    const now = known.current;
    if (now?.isOver) return false;
    if (!now || (now.entries.length === 0 && !now.hasEarlier)) {
      const page = await fetchPage("");
      known.current = { entries: page.entries, first: page.first, last: page.last, hasEarlier: page.has_earlier, isOver: page.is_over, reason: page.reason ?? null };
      return true;
    }
    const page = await fetchPage(`?after=${now.last}`);
    const isNews = page.entries.length > 0 || page.is_over !== now.isOver;
    known.current = { ...now, entries: page.entries.length ? [...now.entries, ...page.entries] : now.entries, last: page.last, isOver: page.is_over };
    return isNews;
  }

  async function readEarlier(): Promise<boolean> {
    const now = known.current;
    if (!now?.hasEarlier) return false;
    const page = await fetchPage(`?before=${now.first}`);
    known.current = { ...now, entries: [...page.entries, ...now.entries], first: page.first, hasEarlier: page.has_earlier };
    return true;
  }

  useEffect(() => {
    alive.current = true;
    known.current = null;
    setState({ isLoading: true, error: null, version: 0 });
    void exclusively(follow);
    const timer = setInterval(() => !document.hidden && connection.value === "live" && void exclusively(follow), AGAIN);
    const leave = listen((events) => {
      if (events.some((event) => (event.data as { id?: string } | null)?.id === id)) void exclusively(follow);
    });
    return () => {
      alive.current = false;
      clearInterval(timer);
      leave();
    };
  }, [id]);

  const now = known.current;
  return {
    entries: now?.entries ?? [],
    hasEarlier: now?.hasEarlier ?? false,
    isLoading: state.isLoading,
    error: state.error,
    reason: now?.reason ?? null,
    loadEarlier: async (all = false) => {
      for (let page = 0; page < (all ? MOST_PAGES : 1) && alive.current && (page === 0 || known.current?.hasEarlier); page++) await exclusively(readEarlier);
    },
  };
}
