/** What a person can do about an item, with a key each; the actions come from the server. */

import { actOfAction, type Act, type ActResult, type Given, type Subject } from "../acts";
import { callTool, read } from "../data/api";
import { me } from "../data/live";
import { answerWithPasskey, type PersonProof } from "../data/passkeys";
import type { Action } from "../data/shapes";
import type { InboxItem, InboxPeople, ItemPart } from "../data/shapes-inbox";
import { parseAmount, snoozeTimes } from "./inbox";

type ItemSubject = Subject<InboxItem>;

interface Slot {
  id: string;
  key: string;
  matches: (action: Action) => boolean;
  isMain?: boolean;
  words?: Act["needsWords"];
  prompt?: (item: InboxItem, action: Action) => string;
}

const isVerdict = (action: Action, ...verdicts: string[]): boolean => action.tool === "log_milestone" && verdicts.includes(String((action.arguments.metadata as { verdict?: string } | undefined)?.verdict));
const movesTo = (action: Action, status: string): boolean => action.arguments.status === status;

/** In the order of the buttons. */
const SLOTS: Slot[] = [
  {
    id: "approve",
    key: "a",
    isMain: true,
    matches: (action) => ["give_approval", "pass_step", "pass_review", "task_release"].includes(action.tool) || (action.tool === "workflow_update_status" && movesTo(action, "in_progress")),
  },
  { id: "judge", key: "a", isMain: true, matches: (action) => isVerdict(action, "approved", "acknowledged"), words: true, prompt: (item, action) => `${item.title}: ${action.asks?.[0]?.label ?? ""}` },
  { id: "answer", key: "e", isMain: true, matches: (action) => action.tool === "resolve_issue", words: true, prompt: (item) => item.title },
  { id: "retry", key: "t", isMain: true, matches: (action) => action.tool === "task_update_status" && movesTo(action, "pending"), words: "optional", prompt: () => "A hint for the next agent" },
  { id: "raise", key: "r", isMain: true, matches: (action) => ["set_budget", "set_run"].includes(action.tool), words: true, prompt: (item, action) => `${item.title}. ${action.asks?.[0]?.label ?? ""} Write a number, such as 20.` },
  { id: "land", key: "l", isMain: true, matches: (action) => action.tool === "land_work" },
  { id: "back", key: "b", matches: (action) => ["refuse_approval", "send_back_step"].includes(action.tool) || isVerdict(action, "refused"), words: true, prompt: (item, action) => `${item.title}: ${action.asks?.[0]?.label ?? "What must change?"}` },
  { id: "again", key: "b", matches: (action) => action.tool === "send_back_review" },
  { id: "skip", key: "s", matches: (action) => action.tool === "task_update_status" && movesTo(action, "skipped") },
];

const can = (tool: string): boolean => (me.value.actions ?? []).includes(tool);

function findAction(slot: Slot, part: ItemPart): Action | undefined {
  const found = part.actions.filter((action) => can(action.tool) && slot.matches(action));
  // Of "try again" with and without a hint, the one that can take words.
  return found.find((action) => action.asks?.length) ?? found[0];
}

const partsOf = (item: InboxItem): ItemPart[] => (item.same?.length ? item.same : [item]);

function buildAct(slot: Slot): Act<InboxItem> {
  const actionOf = (subject: ItemSubject): Action => findAction(slot, subject.thing)!;
  return {
    id: `inbox.${slot.id}`,
    key: slot.key,
    isMain: slot.isMain,
    label: (subject) => (slot.id === "retry" ? "Try again" : actionOf(subject).label),
    applies: (subject) => subject.kind === "item" && !isPutOff(subject.thing) && findAction(slot, subject.thing) !== undefined,
    needsWords: slot.words,
    prompt: slot.prompt && ((subject) => slot.prompt!(subject.thing, actionOf(subject))),
    run: (subject, words, given) => runAction(slot, subject, words, given),
  };
}

async function runAction(slot: Slot, subject: ItemSubject, words: string, given: Given): Promise<ActResult> {
  const parts = partsOf(subject.thing);
  let undo: ActResult["undo"];
  for (const [index, part] of parts.entries()) {
    const action = findAction(slot, part);
    if (!action) continue;
    const asked = readAsked(slot, action, words);
    const answer = await callTool(action.tool, { ...action.arguments, ...asked, ...(await proofOf(action, words, given)) }, `${given.key}:${index}`);
    undo = buildUndo(action, answer as Record<string, unknown>);
  }
  return { text: describe(slot, subject, words, parts.length), undo };
}

function readAsked(slot: Slot, action: Action, words: string): Record<string, unknown> {
  const ask = action.asks?.[0];
  if (!ask) return {};
  if (slot.id === "raise") {
    const amount = parseAmount(words);
    if (amount === null) throw new Error(`“${words.trim().slice(0, 40)}” is no amount in dollars: write a number such as 20 or 12.50.`);
    return { [ask.name]: amount };
  }
  return words.trim() ? { [ask.name]: words.trim() } : {};
}

/** The proof that a decision needs: a passphrase is asked for by the act bar, a passkey by the browser. */
async function proofOf(action: Action, words: string, given: Given): Promise<Record<string, unknown>> {
  if (given.proof) return { proof: given.proof };
  const id = action.arguments.approval_id;
  if (typeof id !== "string") return {};
  const { data: required } = await read<PersonProof>("/person-proof");
  if (required.required !== "passkey") return {};
  const { data: approval } = await read<{ digest: string }>(`/approvals/${encodeURIComponent(id)}`);
  const verdict = action.tool === "give_approval" ? "approve" : "refuse";
  return { proof: { passkey: await answerWithPasskey(required.credentials, [verdict, id, approval.digest, words.trim()]) } };
}

/** What takes an act back: a plan that was resumed is paused, a budget is what it was. */
function buildUndo(action: Action, answer: Record<string, unknown>): ActResult["undo"] {
  const key = crypto.randomUUID();
  if (action.tool === "workflow_update_status" && movesTo(action, "in_progress"))
    return async () => {
      await callTool(action.tool, { ...action.arguments, status: "paused", reason: "Resumed by mistake." }, key);
      return "Undone: it is paused again.";
    };
  const before = (answer.before as { usd?: number } | null | undefined)?.usd;
  if (action.tool === "set_budget" && before)
    return async () => {
      await callTool(action.tool, { ...action.arguments, usd: before }, key);
      return `Undone: it may cost $${before} again.`;
    };
  return undefined;
}

function describe(slot: Slot, { title, thing }: ItemSubject, words: string, count: number): string {
  const about = title.replace(/^Approve /, "");
  const said: Record<string, string> = {
    judge: `${pastOf(findAction(slot, thing)?.label ?? "Approved")}: ${about}. The agent reads your words.`,
    again: `Its rounds of review begin again: ${about}.`,
    approve: `${pastOf(findAction(slot, thing)?.label ?? "Approved")}: ${about}.`,
    back: `Sent back: ${about}. The agent reads your words.`,
    answer: `Answered: ${about}. The agent hears it with its next call.`,
    retry: count > 1 ? `${count} tasks will be tried again.` : `Will be tried again: ${thing.task?.name ?? about}.`,
    raise: `Raised to $${parseAmount(words)}: ${about}.`,
    land: `Asked to land: ${about}.`,
    skip: `Skipped: ${thing.task?.name ?? about}. Tasks that waited for it can start.`,
  };
  return said[slot.id]!;
}

const PAST: Record<string, string> = { Approve: "Approved", Pass: "Passed", Acknowledge: "Acknowledged", Resume: "Resumed", Release: "Released" };
const pastOf = (label: string): string => PAST[label] ?? label;

// What is possible with every item

const isPutOff = (item: InboxItem): boolean => Boolean(item.snoozed_until || item.cleared_at);
const isItem = (subject: Subject): boolean => subject.kind === "item";

async function mark(tool: string, subject: ItemSubject, more: Record<string, unknown>, key: string): Promise<NonNullable<ActResult["undo"]>> {
  await callTool(tool, { items: [subject.id], ...more }, key);
  const undoKey = crypto.randomUUID();
  return async () => {
    await callTool("restore_items", { items: [subject.id] }, undoKey);
    return `Back in your inbox: ${subject.title}`;
  };
}

const MARKS: Act<InboxItem>[] = [
  {
    id: "inbox.snooze",
    key: "z",
    label: "Snooze",
    applies: (subject) => isItem(subject) && !isPutOff(subject.thing) && can("snooze_items"),
    choices: () => snoozeTimes(new Date()),
    run: async (subject, _, { key, choice }) => {
      const label = snoozeTimes(new Date()).find((each) => each.value.slice(0, 15) === choice?.slice(0, 15))?.label;
      const undo = await mark("snooze_items", subject, { until: choice }, key);
      return { text: `Snoozed ${label ?? `until ${new Date(choice ?? "").toLocaleString()}`}: ${subject.title}`, undo };
    },
  },
  {
    id: "inbox.clear",
    key: "c",
    label: "Clear",
    applies: (subject) => isItem(subject) && !isPutOff(subject.thing) && can("clear_items"),
    run: async (subject, _, { key }) => ({ text: `Cleared: ${subject.title}`, undo: await mark("clear_items", subject, {}, key) }),
  },
  {
    id: "inbox.give",
    key: "p",
    label: "Pass on",
    applies: (subject) => isItem(subject) && !isPutOff(subject.thing) && can("give_items"),
    needsWords: "optional",
    prompt: (subject) => `Who shall look at “${subject.title}”?`,
    choices: async () => {
      const { data } = await read<InboxPeople>("/inbox/people");
      return [...data.people.map((each) => ({ value: each.id, label: each.name })), ...data.agents.map((each) => ({ value: each.id, label: `${each.name} (agent${each.role ? `, ${each.role}` : ""})` }))];
    },
    run: async (subject, words, { key, choice }) => {
      if (!choice) throw new Error("There is nobody to pass it to: no person has a token here (deepwork tokens create NAME --person), and no agent is online.");
      const undo = await mark("give_items", subject, { to: choice, ...(words.trim() ? { note: words.trim() } : {}) }, key);
      return { text: `Passed to ${choice.replace(/^human:/, "")}: ${subject.title}`, undo };
    },
  },
  {
    id: "inbox.restore",
    key: "a",
    isMain: true,
    label: "Back to the inbox",
    applies: (subject) => isItem(subject) && (isPutOff(subject.thing) || Boolean(subject.thing.owner)) && can("restore_items"),
    run: async (subject, _, { key }) => {
      await callTool("restore_items", { items: [subject.id] }, key);
      return { text: `Back in your inbox: ${subject.title}` };
    },
  },
];

export const ITEM_ACTS: Act[] = [...SLOTS.map(buildAct), ...MARKS];

/** The actions of an item that have no key: give up, abandon, grant a review. */
export function listMore(item: InboxItem): Act[] {
  if (item.same?.length || isPutOff(item)) return [];
  const keyed = (action: Action): boolean => SLOTS.some((slot) => slot.matches(action));
  return item.actions.filter((action) => !keyed(action)).flatMap((action) => actOfAction(action) ?? []);
}
