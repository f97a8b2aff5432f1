/** The inbox: what waits for a person, with the evidence beside each question and a key for each decision. */

import { useEffect, useRef, useState } from "preact/hooks";
import { registerActs, useFocus, type Subject } from "../acts";
import { read } from "../data/api";
import { hasDraft, useDraft } from "../data/drafts";
import { useHome } from "../data/home";
import { LOOK_AGAIN } from "../data/resource";
import type { InboxAnswer, InboxItem } from "../data/shapes-inbox";
import { defineKind, useFrozen, useList, type EventFilter } from "../data/store";
import { useKey } from "../keys";
import { hasShortcuts } from "../preferences";
import { go, query, replace, withQuery } from "../router";
import { ActBar } from "../ui/actbar";
import { ListDetail } from "../ui/layout";
import { Ago, Copy, dollars, Empty, formatCount, Loaded } from "../ui/parts";
import { State } from "../ui/state";
import { describeBlocked, findNext, KIND_OPTIONS, lookOf, nameKind, placeOf, SHOWS, type Show } from "../view/inbox";
import { ITEM_ACTS, listMore } from "../view/inbox-acts";
import { Evidence } from "./inbox-evidence";
import "./inbox.css";

registerActs(...ITEM_ACTS);
const ITEM = defineKind<InboxItem>({ name: "item", of: () => null });

/** Nearly every event may put something into the inbox, or take it off. */
const affectsInbox: EventFilter = (event) => !["message:created", "message:read", "message:archived", "template:created", "repository:registered", "attempt:progress"].includes(event.type);

const SHOW_NAMES: Record<Show, string> = { open: "Open", snoozed: "Snoozed", given: "Passed on", cleared: "Cleared" };
const EMPTY: Record<Show, string> = { open: "Nothing waits for you", snoozed: "Nothing is snoozed", given: "Nothing is passed on", cleared: "Nothing is cleared" };

const toSubject = (item: InboxItem): Subject<InboxItem> => ({ kind: "item", id: item.id, title: item.title, thing: item });
const isWide = (): boolean => matchMedia("(min-width: 901px)").matches;

export default function Inbox() {
  const show = (SHOWS.find((each) => each === query.value.get("show")) ?? "open") as Show;
  const kind = query.value.get("kind") ?? "";
  // Another list begins anew: it is not the frozen one.
  return <InboxList key={`${show} ${kind}`} show={show} kind={kind} />;
}

function InboxList({ show, kind }: { show: Show; kind: string }) {
  const address = `/inbox?show=${show}${kind ? `&kind=${encodeURIComponent(kind)}` : ""}`;
  const list = useList(ITEM, address, { pick: (answer: InboxAnswer) => answer.items, affects: affectsInbox, every: LOOK_AGAIN });
  const { shown, fresh, release } = useFrozen(list.items, true);
  const asked = query.value.get("item");
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set());
  const rows = useRef<HTMLUListElement>(null);

  const ids = shown.map(({ item }) => item.id);
  const isOpen = (id: string): boolean => shown.some(({ item, gone }) => item.id === id && !gone);
  const id = asked && ids.includes(asked) ? asked : isWide() && !asked ? (findNext(ids, null, isOpen) ?? null) : asked;
  const current = shown.find(({ item }) => item.id === id) ?? null;
  const selected = shown.filter(({ item, gone }) => !gone && chosen.has(item.id)).map(({ item }) => toSubject(item));

  const open = (to: string | null, isSilent = false): void => {
    if (to === null) return;
    replace(withQuery({ item: to }));
    if (!isSilent) requestAnimationFrame(() => focusRow(rows.current, to));
  };
  const step = (by: 1 | -1): boolean => {
    if (ids.length === 0) return false;
    const at = id ? ids.indexOf(id) : -1;
    open(ids[Math.max(0, Math.min(ids.length - 1, at === -1 ? (by > 0 ? 0 : ids.length - 1) : at + by))]!);
    return true;
  };

  useKey("j", () => step(1), "Next item");
  useKey("k", () => step(-1), "Previous item");
  useKey("x", () => void (id && setChosen(toggle(chosen, id))), "Select this item, too");
  useKey("o", () => openPage(current?.item), "Open the page of this item");
  useKey(".", () => (fresh > 0 ? release() : false), "Show what is new");
  useFocus({
    focused: current && !current.gone ? toSubject(current.item) : null,
    selected,
    more: current && !current.gone ? listMore(current.item) : [],
    next: () => open(findNext(ids, id, (each) => isOpen(each) && each !== id && !chosen.has(each))),
    clear: () => setChosen(new Set()),
  });

  // When everything is decided, there is nothing left to keep in its place.
  const isOver = shown.length > 0 && shown.every(({ gone }) => gone);
  useEffect(() => {
    if (!isOver) return;
    release();
    replace(withQuery({ item: null }));
  }, [isOver]);

  const answer = list.data as InboxAnswer | null;
  return (
    <div class="inbox">
      <h1 class="unseen">Inbox</h1>
      <ListDetail
        label="Inbox"
        isOpen={current !== null && (asked !== null || isWide())}
        openId={id}
        onClose={() => go(withQuery({ item: null }))}
        list={
          <>
            <Head show={show} kind={kind} answer={answer} fresh={fresh} release={release} />
            <Loaded of={list} rows={8}>
              {() =>
                shown.length === 0 ? (
                  <Nothing show={show} kind={kind} />
                ) : (
                  <ul class="inbox-rows" aria-label={SHOW_NAMES[show]} ref={rows}>
                    {shown.map(({ item, gone }) => (
                      <Row key={item.id} item={item} isGone={gone} isCurrent={item.id === id} isChosen={chosen.has(item.id)} onChoose={() => setChosen(toggle(chosen, item.id))} />
                    ))}
                  </ul>
                )
              }
            </Loaded>
            {answer && answer.total > answer.items.length && <p class="faint inbox-note">The first {answer.items.length} of {answer.total.toLocaleString()}.</p>}
          </>
        }
        detail={selected.length > 0 ? <Selected subjects={selected} onClear={() => setChosen(new Set())} /> : current ? <Detail key={current.item.id} item={current.item} isGone={current.gone} /> : <p class="faint inbox-none">{shown.length > 0 ? "Choose an item." : ""}</p>}
      />
    </div>
  );
}

function toggle(chosen: ReadonlySet<string>, id: string): ReadonlySet<string> {
  const next = new Set(chosen);
  if (!next.delete(id)) next.add(id);
  return next;
}

function focusRow(list: HTMLElement | null, id: string): void {
  const row = [...(list?.querySelectorAll<HTMLElement>("[data-id]") ?? [])].find((each) => each.dataset.id === id);
  row?.querySelector<HTMLElement>("a[data-main]")?.focus({ preventScroll: true });
  row?.scrollIntoView({ block: "nearest" });
}

function openPage(item: InboxItem | undefined): boolean {
  const to = item && placeOf(item);
  if (to) go(to);
  return Boolean(to);
}

function Head({ show, kind, answer, fresh, release }: { show: Show; kind: string; answer: InboxAnswer | null; fresh: number; release: () => void }) {
  const counts = answer?.counts;
  return (
    <div class="inbox-head">
      <p class="inbox-heading">
        Inbox <span class="count">{counts ? counts.open.toLocaleString() : ""}</span>
        {counts && counts.folded > 0 && <span class="faint inbox-folded">({counts.folded} folded)</span>}
      </p>
      <div class="inbox-filters">
        <nav aria-label="What to show">
          {SHOWS.map((each) => (
            <a href={withQuery({ show: each === "open" ? null : each, item: null })} aria-current={each === show ? "page" : undefined}>
              {SHOW_NAMES[each]}
              {counts && each !== "open" && counts[each] > 0 && <span class="count">{counts[each]}</span>}
            </a>
          ))}
        </nav>
        <label>
          <span class="unseen">Kind</span>
          <select value={kind} onChange={(event) => go(withQuery({ kind: event.currentTarget.value || null, item: null }))}>
            <option value="">All kinds</option>
            {KIND_OPTIONS.map(([value, name]) => <option value={value}>{name}</option>)}
          </select>
        </label>
      </div>
      <div class="inbox-fresh" aria-live="polite">
        {fresh > 0 && (
          <button type="button" class="button tiny primary" onClick={release}>
            {fresh} new {hasShortcuts.value && <kbd aria-hidden="true">.</kbd>}
          </button>
        )}
      </div>
    </div>
  );
}

interface RowProps {
  item: InboxItem;
  isGone: boolean;
  isCurrent: boolean;
  isChosen: boolean;
  onChoose: () => void;
}

function Row({ item, isGone, isCurrent, isChosen, onChoose }: RowProps) {
  const blocked = describeBlocked(item);
  return (
    <li class={`inbox-row${isCurrent ? " is-current" : ""}${isGone ? " is-gone" : ""}`} data-item data-id={item.id} data-kind={item.kind}>
      <label class="inbox-choose">
        <input type="checkbox" checked={isChosen && !isGone} disabled={isGone} onChange={onChoose} aria-label={`Select ${item.title}`} />
      </label>
      <a class="inbox-link" data-main href={withQuery({ item: item.id })} aria-current={isCurrent ? "true" : undefined} data-keeps-scroll>
        <span class="inbox-name">{item.title}</span>
        <span class="inbox-facts faint">
          <State status={isGone ? "completed" : lookOf(item.kind)} word={isGone ? "decided" : nameKind(item.kind)} />
          <Ago at={item.since} />
          {blocked && <span class="inbox-blocks">{blocked}</span>}
          {item.run && <span class="inbox-run">{item.run.name}</span>}
          {item.usd ? <span>{dollars(item.usd)}</span> : null}
          {item.owner_name && <span>with {item.owner_name}</span>}
          {hasDraft(`item:${item.id}`) && <span class="inbox-draft">draft kept</span>}
        </span>
      </a>
    </li>
  );
}

function Detail({ item, isGone }: { item: InboxItem; isGone: boolean }) {
  const blocked = describeBlocked(item);
  const to = placeOf(item);
  return (
    <article class="inbox-detail" aria-label={item.title}>
      <header>
        <p class="inbox-kind"><State status={lookOf(item.kind)} word={nameKind(item.kind)} /></p>
        <h2>{item.title}</h2>
        <p class="faint">
          <Ago at={item.since} />
          {blocked && <> · <strong>{blocked}</strong></>}
          {item.run && <> · <a href={`/runs/${encodeURIComponent(item.run.id)}`}>{item.run.name}</a></>}
          {item.agent_name && <> · {item.agent_name}</>}
          {item.usd ? <> · {dollars(item.usd)}</> : null}
          {item.owner_name && <> · with {item.owner_name}</>}
          {item.snoozed_until && <> · snoozed until {new Date(item.snoozed_until).toLocaleString()}</>}
          {to && <> · <a href={to}>Open its page</a></>}
        </p>
        {item.note && <p class="callout">{item.marked_by?.replace(/^human:/, "")}: {item.note}</p>}
      </header>
      {isGone ? <Decided item={item} /> : null}
      <Evidence item={item} />
      {!isGone && <NextStep item={item} />}
      {!isGone && <ActBar subject={toSubject(item)} more={listMore(item)} />}
    </article>
  );
}

/** What helps with an item that this page has no button for: the command that continues the work. */
function NextStep({ item }: { item: InboxItem }) {
  if (!item.next || item.actions.length > 0) return null;
  return (
    <p class="callout inbox-next">
      It is answered at a terminal: <code>{item.next}</code> <Copy small label="Copy" text={item.next} />
    </p>
  );
}

interface Decision {
  status: string;
  decided_by?: string | null;
  comment?: string | null;
}

/** Says that an item is decided, by whom if that is known, and keeps what the person had begun to write. */
function Decided({ item }: { item: InboxItem }) {
  const draft = useDraft(`item:${item.id}`);
  const [decision, setDecision] = useState<Decision | null>(null);
  useEffect(() => {
    if (item.kind !== "approval") return;
    void read<Decision>(`/approvals/${encodeURIComponent(item.about)}`).then(({ data }) => setDecision(data), () => {});
  }, [item.id]);
  const how = decision?.status === "refused" ? "Refused" : decision?.decided_by ? "Approved" : "";
  return (
    <div class="callout inbox-decided" role="status">
      <p>
        <strong>{how ? `${how} by ${decision!.decided_by!.replace(/^human:/, "")}.` : "This does not wait any more: it was decided, or is over."}</strong>
        {decision?.comment && <> “{decision.comment}”</>}
      </p>
      {draft.text && (
        <>
          <p>Your draft is kept:</p>
          <blockquote class="inbox-draft-text">{draft.text}</blockquote>
          <p class="actions">
            <Copy small label="Copy the draft" text={draft.text} />
            <button type="button" class="button tiny" onClick={draft.clear}>Discard it</button>
          </p>
        </>
      )}
    </div>
  );
}

function Selected({ subjects, onClear }: { subjects: Subject<InboxItem>[]; onClear: () => void }) {
  return (
    <article class="inbox-detail" aria-label="Selected items">
      <header>
        <h2>{formatCount(subjects.length, "item")} selected</h2>
        <p class="faint">What you do now, you do with each of them.</p>
      </header>
      <ul class="inbox-tasks">{subjects.map((each) => <li>{each.title}</li>)}</ul>
      <p><button type="button" class="button tiny" onClick={onClear}>Select none</button></p>
      <ActBar subjects={subjects} />
    </article>
  );
}

function Nothing({ show, kind }: { show: Show; kind: string }) {
  const home = useHome();
  const running = home.data?.counts.states.running ?? 0;
  return (
    <Empty title={kind ? `${EMPTY[show]} of this kind` : EMPTY[show]}>
      {show === "open" && !kind && <p>{running > 0 ? <a href="/runs">{formatCount(running, "run")} under way.</a> : "Questions, approvals, failures, used-up budgets and stopped runs appear here as they happen."}</p>}
    </Empty>
  );
}
