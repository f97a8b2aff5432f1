/**
 * What the page knows of the server, once: answers by their address, and things by their id.
 *
 * Views share an answer. It stays while it is read again, and after the last view has left it, so that coming
 * back shows it at once; it is then asked for again, with its ETag. Events change single things, or make them
 * read again; a whole list is read again only if something came or went.
 */

import { batch, signal, type Signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { ApiError, NoResponse, read } from "./api";
import { connection, eventBuffer, listen } from "./live";
import type { Envelope } from "./shapes";
import { share } from "./share";

export interface Resource<T> {
  data: T | null;
  /** The number of the last event that the data includes. */
  seq: number;
  error: ApiError | NoResponse | null;
  isLoading: boolean;
  reload: () => void;
}

/** Returns whether an event makes the data out of date. */
export type EventFilter = (event: Envelope) => boolean;

/**
 * Read again immediately on the first event. After that, wait at least LEAST_PAUSE milliseconds and SHARE_OF_TIME
 * times the duration of the last read, so that the server has time for other clients.
 */
const LEAST_PAUSE = 400;
const SHARE_OF_TIME = 6;
/** How many answers are kept that no view shows. */
const KEPT = 24;

interface Watcher {
  affects: () => EventFilter | null | undefined;
  every?: number;
}

/** One answer of the server, and the views that show it. */
class Entry<T> {
  readonly value: Signal<Resource<T>>;
  private readonly watchers = new Set<Watcher>();
  private tag: string | null = null;
  private control = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isReading = false;
  private isWanted = false;
  private last = 0;
  private pause = LEAST_PAUSE;

  constructor(readonly address: string) {
    this.value = signal<Resource<T>>({ data: null, seq: 0, error: null, isLoading: true, reload: () => this.reload() });
  }

  get isWatched(): boolean {
    return this.watchers.size > 0;
  }

  watch(watcher: Watcher): () => void {
    this.watchers.add(watcher);
    entries.delete(this.address); // the ones left longest ago are first
    entries.set(this.address, this as Entry<unknown>);
    if (this.watchers.size === 1) {
      this.control = new AbortController();
      if (this.value.value.error) this.show({ error: null, isLoading: this.value.value.data === null });
      void this.load();
    }
    const again = watcher.every ? setInterval(() => !document.hidden && connection.value === "live" && this.schedule(), watcher.every) : undefined;
    return () => {
      clearInterval(again);
      this.watchers.delete(watcher);
      if (this.isWatched) return;
      this.control.abort();
      this.isReading = this.isWanted = false;
      clearTimeout(this.timer);
      dropOldest();
    };
  }

  reload(): void {
    this.show({ isLoading: true });
    void this.load();
  }

  /** Read again as soon as the server has had time for others. */
  schedule(): void {
    if (!this.isWatched) return;
    this.isWanted = false;
    clearTimeout(this.timer);
    const wait = this.last ? Math.max(0, this.last + this.pause - performance.now()) : 0;
    this.timer = setTimeout(() => void this.load(), wait);
  }

  isAffectedBy(events: readonly Envelope[]): boolean {
    return [...this.watchers].some((watcher) => {
      const affects = watcher.affects();
      return affects ? events.some(affects) : false;
    });
  }

  private show(change: Partial<Resource<T>>): void {
    this.value.value = { ...this.value.value, ...change };
  }

  private async load(): Promise<void> {
    if (this.isReading) {
      this.isWanted = true;
      return;
    }
    this.isReading = true;
    const { control } = this;
    const began = performance.now();
    try {
      const answer = await read<T>(this.address, control.signal, this.value.value.data === null ? null : this.tag);
      if (control.signal.aborted) return;
      this.tag = answer.tag;
      if (answer.data === undefined) this.show({ error: null, isLoading: false });
      else this.show({ data: answer.data, seq: answer.seq, error: null, isLoading: false });
      // Events that arrived during the request.
      if (answer.seq && this.isAffectedBy(eventBuffer.since(answer.seq) ?? [])) this.isWanted = true;
    } catch (error) {
      if (control.signal.aborted) return;
      if (!(error instanceof ApiError || error instanceof NoResponse)) throw error;
      this.show({ error, isLoading: false });
      this.isWanted = false;
    }
    this.isReading = false;
    this.last = performance.now();
    this.pause = Math.max(LEAST_PAUSE, (this.last - began) * SHARE_OF_TIME);
    if (this.isWanted) this.schedule();
  }
}

const entries = new Map<string, Entry<unknown>>();

function getEntry<T>(address: string): Entry<T> {
  let entry = entries.get(address);
  if (!entry) entries.set(address, (entry = new Entry<unknown>(address)));
  return entry as unknown as Entry<T>;
}

function dropOldest(): void {
  const left = [...entries.values()].filter((entry) => !entry.isWatched);
  for (const entry of left.slice(0, Math.max(0, left.length - KEPT))) entries.delete(entry.address);
}

const NOTHING: Resource<never> = { data: null, seq: 0, error: null, isLoading: false, reload: () => {} };

/** The answer at an address below /api/v1; `affects` says after which events it is read again. */
export function useResource<T>(address: string | null, affects?: EventFilter | null, every?: number): Resource<T> {
  const filter = useRef(affects);
  filter.current = affects;
  const entry = useMemo(() => (address === null ? null : getEntry<T>(address)), [address]);
  useEffect(() => entry?.watch({ affects: () => filter.current, every }), [entry, every]);
  return entry ? entry.value.value : (NOTHING as Resource<T>);
}

/** A kind of thing: one shape, wherever it comes from. */
export interface Kind<T extends { id: string }> {
  name: string;
  /** The address of one, below /api/v1; without it, lists are read again instead. */
  one?: (id: string) => string;
  /** Takes the thing out of that answer, if it wraps it. */
  unwrap?: (answer: any) => T;
  /** Which one an event is about. */
  of: (event: Envelope) => string | null;
  /** The thing after an event, if the event alone tells; null: read it again. */
  apply?: (thing: T, event: Envelope) => T | null;
  /** The event may put things on lists or take them off. */
  moves?: (event: Envelope) => boolean;
}

interface Table {
  kind: Kind<any>;
  things: Map<string, { id: string }>;
  /** By id, the number of the last event that is in the thing: an answer may be overtaken by a newer one. */
  seqs: Map<string, number>;
  /** Changes whenever a thing does. */
  version: Signal<number>;
  /** How many views show a thing. */
  uses: Map<string, number>;
}

const tables = new Map<string, Table>();

export function defineKind<T extends { id: string }>(kind: Kind<T>): Kind<T> {
  tables.set(kind.name, { kind, things: new Map(), seqs: new Map(), version: signal(0), uses: new Map() });
  return kind;
}

function put(table: Table, fresh: readonly { id: string }[], seq: number): void {
  let isChanged = false;
  for (const thing of fresh) {
    const known = table.things.get(thing.id);
    if (known && seq < (table.seqs.get(thing.id) ?? 0)) continue;
    table.seqs.set(thing.id, seq);
    const shared = share(known, thing);
    if (shared === known) continue;
    table.things.set(thing.id, shared);
    isChanged = true;
  }
  if (isChanged) table.version.value += 1;
}

function use(table: Table, ids: readonly string[]): () => void {
  for (const id of ids) table.uses.set(id, (table.uses.get(id) ?? 0) + 1);
  return () => {
    for (const id of ids) {
      const left = table.uses.get(id)! - 1;
      if (left > 0) table.uses.set(id, left);
      else {
        table.uses.delete(id);
        table.things.delete(id);
        table.seqs.delete(id);
      }
    }
  };
}

export interface ListOf<T> extends Resource<any> {
  items: readonly T[];
}

/** A list of things. `affects`: events, besides those of the kind, after which it is read again. */
export function useList<T extends { id: string }>(kind: Kind<T>, address: string | null, options: { pick?: (answer: any) => T[]; affects?: EventFilter; every?: number } = {}): ListOf<T> {
  const table = tables.get(kind.name)!;
  const affects: EventFilter = (event) => moves(table, event) || Boolean(options.affects?.(event));
  const found = useResource<any>(address, affects, options.every);
  const picked: T[] = useMemo(() => (found.data === null ? [] : (options.pick ?? ((answer) => answer[`${kind.name}s`]))(found.data)), [found.data]);
  useLayoutEffect(() => put(table, picked, found.seq), [picked]);
  useEffect(() => use(table, picked.map((each) => each.id)), [picked]);
  const version = table.version.value;
  const held = useRef<readonly T[]>([]);
  const items = useMemo(() => {
    const next = picked.map((each) => (table.things.get(each.id) as T | undefined) ?? each);
    return (held.current = share(held.current, next));
  }, [picked, version]);
  return { ...found, items };
}

/** One thing, as lists show it, too. */
export function useEntity<T extends { id: string }>(kind: Kind<T>, id: string | null): Resource<T> {
  const table = tables.get(kind.name)!;
  const found = useResource<any>(id === null ? null : kind.one!(id), null);
  const fresh: T | null = useMemo(() => (found.data === null ? null : kind.unwrap ? kind.unwrap(found.data) : found.data), [found.data]);
  useLayoutEffect(() => (fresh === null ? undefined : put(table, [fresh], found.seq)), [fresh]);
  useEffect(() => (id === null ? undefined : use(table, [id])), [id]);
  void table.version.value;
  const thing = id === null ? null : ((table.things.get(id) as T | undefined) ?? fresh);
  return { ...found, data: thing };
}

/** Read one thing again, wherever it is shown. */
export function touch(kind: Kind<any>, id: string): void {
  const table = tables.get(kind.name)!;
  if (kind.one) void readOne(table, id);
}

function moves(table: Table, event: Envelope): boolean {
  const id = table.kind.of(event);
  if (id === null) return false;
  if (table.kind.moves) return table.kind.moves(event);
  return !/:(progress|updated)$/.test(event.type) || !table.things.has(id) || !(table.kind.one || table.kind.apply);
}

const reading = new Map<string, { isWanted: boolean }>();

async function readOne(table: Table, id: string): Promise<void> {
  const name = `${table.kind.name}:${id}`;
  const underway = reading.get(name);
  if (underway) {
    underway.isWanted = true;
    return;
  }
  const state = { isWanted: false };
  reading.set(name, state);
  const began = performance.now();
  try {
    const { data, seq } = await read<any>(table.kind.one!(id));
    if (table.uses.has(id)) put(table, [table.kind.unwrap ? table.kind.unwrap(data) : data], seq);
  } catch (error) {
    // A thing that is gone leaves its lists with the event that said so; a server that is gone is shown by the frame.
    if (!(error instanceof ApiError || error instanceof NoResponse)) throw error;
  } finally {
    const pause = Math.max(LEAST_PAUSE, (performance.now() - began) * SHARE_OF_TIME);
    setTimeout(() => {
      reading.delete(name);
      if (state.isWanted && table.uses.has(id)) void readOne(table, id);
    }, pause);
  }
}

function applyToTables(events: readonly Envelope[]): void {
  for (const table of tables.values()) {
    if (table.uses.size === 0) continue;
    for (const event of events) {
      const id = table.kind.of(event);
      if (id === null || !table.uses.has(id)) continue;
      const thing = table.things.get(id);
      const next = thing && table.kind.apply ? table.kind.apply(thing, event) : null;
      if (next) put(table, [next], event.seq);
      else if (table.kind.one) void readOne(table, id);
    }
  }
}

listen((events, isResync) => {
  batch(() => applyToTables(events));
  if (isResync) for (const table of tables.values()) if (table.kind.one) for (const id of table.uses.keys()) void readOne(table, id);
  for (const entry of [...entries.values()]) if (entry.isWatched && (isResync || entry.isAffectedBy(events))) entry.schedule();
});

// What could not be read is read when the server is reachable again.
connection.subscribe((now) => {
  if (now === "live") for (const entry of entries.values()) if (entry.value.peek().error instanceof NoResponse) entry.schedule();
});

/**
 * A list that stays as it is while somebody reads it: order and members stay, what changes inside them shows.
 * `fresh` says how many things wait; `release` lets them in.
 */
export function useFrozen<T extends { id: string }>(items: readonly T[], isReading: boolean): { shown: { item: T; gone: boolean }[]; fresh: number; release: () => void } {
  const held = useRef<T[]>([]);
  const now = new Map(items.map((item) => [item.id, item]));
  if (!isReading || held.current.length === 0) held.current = [...items];
  const shown = held.current.map((item) => ({ item: now.get(item.id) ?? item, gone: !now.has(item.id) }));
  held.current = shown.map((each) => each.item);
  const known = new Set(held.current.map((item) => item.id));
  const [, redraw] = useState(0);
  return {
    shown,
    fresh: items.filter((item) => !known.has(item.id)).length,
    release: () => {
      held.current = [...items];
      redraw((n) => n + 1);
    },
  };
}
