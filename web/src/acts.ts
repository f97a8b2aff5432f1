/** What a person can do, declared once: buttons, keys and the palette offer the same acts. */

import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { ApiError, callTool } from "./data/api";
import { readDraft, saveDraft } from "./data/drafts";
import { me } from "./data/live";
import type { Action } from "./data/shapes";
import { showResult } from "./ui/result";

/** What an act is about. */
export interface Subject<T = any> {
  kind: string;
  id: string;
  title: string;
  thing: T;
}

export interface ActResult {
  /** One sentence that says what happened. */
  text: string;
  undo?: () => Promise<string | void>;
}

export interface Given {
  /** Makes a repeated call harmless. */
  key: string;
  proof?: { passphrase?: string };
  choice?: string;
  /** It runs for several. */
  many: boolean;
}

export interface Choice {
  value: string;
  label: string;
}

export interface Act<T = any> {
  id: string;
  label: string | ((subject: Subject<T>) => string);
  /** One character; upper case is another key. */
  key?: string;
  applies: (subject: Subject<T>) => boolean;
  isMain?: boolean;
  /** Cannot be taken back: it is confirmed first. */
  isHarmful?: boolean;
  needsWords?: boolean | "optional";
  /** What is repeated above the words, for example the question. */
  prompt?: (subject: Subject<T>) => string;
  choices?: (subject: Subject<T>) => Choice[] | Promise<Choice[]>;
  run: (subject: Subject<T>, words: string, given: Given) => Promise<ActResult>;
  /** The focus stays on the item afterwards. */
  stays?: boolean;
}

export interface Focus {
  focused: Subject | null;
  /** The marked items: acts are about these, if there are any. */
  selected?: Subject[];
  /** Acts of the focused item alone, besides those that are registered. */
  more?: Act[];
  /** Moves on to the next item. */
  next?: () => void;
  /** Empties the selection. */
  clear?: () => void;
}

/** An act that waits for words, a choice, a confirmation or a passphrase. */
export interface Asking {
  act: Act;
  subjects: Subject[];
  refusal: string;
  /** What has to be approved with a passkey first. */
  approval?: string;
  needsPassphrase: boolean;
  key: string;
}

const acts = new Map<string, Act>();
export const focus = signal<Focus>({ focused: null });
export const asking = signal<Asking | null>(null);
export const isActing = signal(false);

export function registerActs(...given: Act[]): void {
  for (const act of given) acts.set(act.id, act);
}

/** Tells what keys and the palette act on while this view is shown. */
export function useFocus(given: Focus): void {
  const mine = useRef(given);
  // Before the next key: what is shown is what a key acts on.
  useLayoutEffect(() => {
    mine.current = given;
    focus.value = given;
  });
  useEffect(
    () => () => {
      if (focus.peek() === mine.current) focus.value = { focused: null };
    },
    [],
  );
}

/** The marked items, or else the one in focus. */
export function getSubjects(): Subject[] {
  const { focused, selected } = focus.value;
  return selected?.length ? selected : focused ? [focused] : [];
}

/** The acts that apply to every one of these. */
export function actsFor(subjects: readonly Subject[]): Act[] {
  return subjects.length === 0 ? [] : [...acts.values()].filter((act) => subjects.every((each) => act.applies(each)));
}

export const labelOf = (act: Act, subject: Subject): string => (typeof act.label === "string" ? act.label : act.label(subject));

/** The key of the draft that an act's words are kept under: one per item. */
export const draftOf = (act: Act, subjects: readonly Subject[]): string => (subjects.length === 1 ? `${subjects[0]!.kind}:${subjects[0]!.id}` : `several:${act.id}`);

/** Begins an act: at once, or by asking for what it needs. */
export function begin(act: Act, subjects: Subject[]): void {
  if (isActing.peek()) return;
  if (act.needsWords || act.choices || act.isHarmful) asking.value = createAsking(act, subjects);
  else void perform(act, subjects);
}

const createAsking = (act: Act, subjects: Subject[]): Asking => ({ act, subjects, refusal: "", needsPassphrase: false, key: crypto.randomUUID() });

/** Does the act for each in turn, says what happened, and moves on. Returns false if one was refused. */
export async function perform(act: Act, subjects: Subject[], words = "", given: Partial<Given> = {}): Promise<boolean> {
  isActing.value = true;
  const waiting = asking.peek()?.act === act ? asking.peek()! : createAsking(act, subjects);
  const { next, clear } = focus.peek();
  const done: ActResult[] = [];
  let problem: Error | null = null;
  const left = [...subjects];
  try {
    while (left.length > 0) {
      done.push(await act.run(left[0]!, words, { key: `${waiting.key}:${left[0]!.id}`, many: subjects.length > 1, ...given }));
      left.shift();
    }
  } catch (error) {
    problem = error as Error;
  } finally {
    isActing.value = false;
  }
  if (problem) {
    asking.value = describeRefusal({ ...waiting, subjects: left }, problem);
    if (done.length > 0) showResult({ text: `${summarize(act, subjects, done)} Then it was refused: ${problem.message}`, tone: "bad" });
    return false;
  }
  asking.value = null;
  if (words) saveDraft(draftOf(act, subjects), "");
  const undos = done.flatMap((each) => (each.undo ? [each.undo] : []));
  const text = summarize(act, subjects, done); // empty if it only opened something
  if (text) showResult({ text, undo: undos.length === done.length && undos.length > 0 ? () => undoAll(undos) : undefined });
  if (subjects.length > 1) clear?.();
  if (!act.stays) next?.();
  return true;
}

function summarize(act: Act, subjects: readonly Subject[], done: readonly ActResult[]): string {
  if (subjects.length === 1) return done[0]?.text ?? "";
  return `${labelOf(act, subjects[0]!)}: done for ${done.length} of ${subjects.length}.`;
}

async function undoAll(undos: readonly (() => Promise<string | void>)[]): Promise<string | void> {
  let text: string | void = undefined;
  for (const undo of [...undos].reverse()) text = await undo();
  return undos.length === 1 ? text : `Undone for ${undos.length}.`;
}

/** A refused call had no effect, so the next one gets a new key; after silence the old key makes sure that it happens once. */
function describeRefusal(waiting: Asking, problem: Error): Asking {
  if (!(problem instanceof ApiError)) return { ...waiting, refusal: problem.message };
  const { suggestion, proof, approval } = problem.body;
  return {
    ...waiting,
    refusal: suggestion ? `${problem.message} ${suggestion}` : problem.message,
    approval: approval?.id,
    needsPassphrase: waiting.needsPassphrase || proof === "passphrase",
    key: problem.status < 500 ? crypto.randomUUID() : waiting.key,
  };
}

/** Leaves what was asked; the words stay as a draft. */
export function leaveAsking(): boolean {
  if (!asking.peek() || isActing.peek()) return false;
  asking.value = null;
  return true;
}

export const wordsFor = (waiting: Asking): string => readDraft(draftOf(waiting.act, waiting.subjects));

const HARMFUL = new Set(["abandon_task", "abort_workflow"]);

/** An action that the server offers with a thing, as an act; null if the caller may not do it, or if it asks for several texts. */
export function actOfAction(action: Action, more: Partial<Act> = {}): Act | null {
  if (!(me.value.actions ?? []).includes(action.tool) || (action.asks?.length ?? 0) > 1) return null;
  const ask = action.asks?.[0];
  return {
    id: `${action.tool}:${action.label}`,
    label: action.label,
    applies: () => true,
    isHarmful: HARMFUL.has(action.tool) || action.arguments.now === true || Object.values(action.arguments).includes("abandoned"),
    needsWords: ask ? (ask.optional ? "optional" : true) : undefined,
    prompt: ask ? () => ask.label : undefined,
    run: async (subject, words, { key, proof }) => {
      await callTool(action.tool, { ...action.arguments, ...(ask && words.trim() ? { [ask.name]: words } : {}), ...(proof ? { proof } : {}) }, key);
      return { text: `${action.label}: ${subject.title}.` };
    },
    ...more,
  };
}
