/** Finished work for a person to review: the queue, the diff by task with comments on lines, and what shows that it is good. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { registerActs, useFocus, type Subject } from "../acts";
import { callTool, read } from "../data/api";
import { hasDraft } from "../data/drafts";
import { me } from "../data/live";
import { answerWithPasskey, type PersonProof } from "../data/passkeys";
import { useResource, type EventFilter } from "../data/resource";
import type { Decision } from "../data/shapes";
import type { Comment, ReviewEntry, ReviewPatch, ReviewQueue, SentBack, TaskReview, Weakened } from "../data/shapes-review";
import { useFrozen } from "../data/store";
import { useKey } from "../keys";
import { go, query, runAddress, taskAddress, withQuery } from "../router";
import { subject as title } from "../routes";
import { ActBar } from "../ui/actbar";
import { ListDetail } from "../ui/layout";
import { Ago, dollars, Empty, formatCount, humanize, Loaded, Prose, Section } from "../ui/parts";
import { State } from "../ui/state";
import { Standing } from "../ui/standing";
import { reveal } from "../view/reveal";
import { countChecks, describeRisks, describeSent, describeWeakening, isLowRisk, splitPatch } from "../view/review";
import { CommentCard } from "./review-comments";
import { ReviewFileDiff, type CommentPlace } from "./review-diff";
import "./review.css";

const affects: EventFilter = (event) => /^(plan_task|approval|comment|landing|attempt|plan|workflow):/.test(event.type) && event.type !== "attempt:progress";
const can = (tool: string): boolean => Boolean(me.value.actions?.includes(tool));
const asSubject = (entry: ReviewEntry): Subject<ReviewEntry> => ({ kind: "review", id: entry.id, title: entry.name, thing: entry });
const isReview = (subject: Subject): boolean => subject.kind === "review";
const isOpen = (entry: ReviewEntry): boolean => !entry.has_landed && (Boolean(entry.approval_id) || entry.state === "done");

registerActs(
  {
    id: "review.approve",
    label: "Approve",
    key: "a",
    isMain: true,
    applies: (subject) => isReview(subject) && isOpen(subject.thing) && !subject.thing.reviewed_by && subject.thing.comments.unsent === 0 && can(subject.thing.approval_id ? "give_approval" : "approve_work"),
    run: async ({ id, title: name, thing }: Subject<ReviewEntry>, _, { key, proof }) => {
      if (!thing.approval_id) {
        await callTool("approve_work", { task_id: id, digest: thing.digest, ...(proof ? { proof } : {}) }, key);
        return { text: `Reviewed: ${name}.` };
      }
      const given = { approval_id: thing.approval_id, proof: proof ?? (await findProof(["approve", thing.approval_id, thing.approval_digest!, "0"])) };
      const done = (await callTool("give_approval", given, key)) as { effect?: string | null; carried_out?: boolean | null };
      if (done.carried_out === false) throw new Error(done.effect ?? "It could not be carried out.");
      return { text: `Approved: ${name}. ${done.effect ?? ""}`.trim() };
    },
  },
  {
    id: "review.back",
    label: "Send back",
    key: "b",
    needsWords: true,
    applies: (subject) => isReview(subject) && isOpen(subject.thing) && subject.thing.comments.unsent === 0 && can("send_back_task"),
    prompt: (subject) => `What should the agent of ${subject.title} do?`,
    run: sendBack,
  },
  {
    id: "review.send",
    label: (subject) => `Send back with ${formatCount(subject.thing.comments.unsent, "comment")}`,
    key: "b",
    isMain: true,
    needsWords: "optional",
    applies: (subject) => isReview(subject) && !subject.thing.has_landed && subject.thing.comments.unsent > 0 && can("send_back_task"),
    prompt: () => "Your comments go with it. More words are optional.",
    run: sendBack,
  },
  {
    id: "review.land",
    label: "Land",
    key: "l",
    applies: (subject) => isReview(subject) && !subject.thing.has_landed && !subject.thing.approval_id && subject.thing.state === "done" && can("land_work"),
    run: async ({ id, title: name }, _, { key, proof }) => {
      const result = (await callTool("land_work", { task_id: id, ...(proof ? { proof } : {}) }, key)) as { landings: { status: string; reason?: string | null }[]; skipped?: { reason: string }[] };
      const landing = result.landings[result.landings.length - 1];
      if (!landing) throw new Error(result.skipped?.[0]?.reason ?? "There is nothing to land.");
      return { text: landing.status === "landed" ? `Landed: ${name}.` : `${name} is ${humanize(landing.status)}. ${landing.reason ?? ""}`.trim() };
    },
  },
);

async function sendBack({ id, title: name }: Subject<ReviewEntry>, words: string, { key }: { key: string }) {
  const sent = (await callTool("send_back_task", { task_id: id, ...(words.trim() ? { text: words } : {}) }, key)) as SentBack;
  return { text: describeSent(name, sent) };
}

/** The proof of a decision, if it is a passkey's; a passphrase is asked for when the server says so. */
async function findProof(parts: string[]): Promise<object | undefined> {
  const { data } = await read<PersonProof>("/person-proof");
  return data.required === "passkey" ? { passkey: await answerWithPasskey(data.credentials, parts) } : {};
}

const FILTERS: [key: string, name: string][] = [["waiting", "Waiting"], ["reviewed", "Reviewed"], ["landed", "Landed"]];

export default function Review() {
  const show = query.value.get("show") ?? "waiting";
  const id = query.value.get("item");
  const queue = useResource<ReviewQueue>(`/review?show=${encodeURIComponent(show)}&limit=25`, affects);
  const [selected, setSelected] = useState<readonly string[]>([]);
  const entries = queue.data?.entries ?? [];
  const { shown, fresh, release } = useFrozen(entries, id !== null || selected.length > 0);
  const at = shown.findIndex(({ item }) => item.id === id);
  const open = (entry: ReviewEntry | undefined) => entry && go(withQuery({ item: entry.id, round: null, since: null, beside: null }));
  const step = (by: number) => {
    const next = shown[at === -1 ? 0 : Math.max(0, Math.min(shown.length - 1, at + by))]?.item;
    open(next);
    if (next) requestAnimationFrame(() => document.querySelector<HTMLElement>(`[data-id="${next.id}"] a`)?.focus());
    return true;
  };
  const toggle = (entry: string) => setSelected(selected.includes(entry) ? selected.filter((each) => each !== entry) : [...selected, entry]);
  useKey("j", () => step(1), "Next task");
  useKey("k", () => step(-1), "Previous task");
  useKey("x", () => (id ? (toggle(id), true) : false), "Select the task");
  useEffect(() => void (title.value = "Review"), []);
  const low = shown.filter(({ item, gone }) => !gone && isLowRisk(item) && !item.reviewed_by).map(({ item }) => item.id);
  const chosen = shown.filter(({ item }) => selected.includes(item.id)).map(({ item }) => asSubject(item));
  const next = () => {
    const rest = shown.filter(({ item, gone }) => !gone && item.id !== id);
    const following = rest.find(({ item }) => shown.findIndex((each) => each.item.id === item.id) > at) ?? rest[0];
    go(withQuery({ item: following?.item.id ?? null, round: null, since: null, beside: null }));
    queue.reload();
  };
  return (
    <div class="page review">
      <header class="review-top">
        <h1>Review</h1>
        {queue.data && <p class="faint">{queue.data.unreviewed} of {queue.data.finished} unreviewed</p>}
        <nav class="review-filters" aria-label="Which tasks">
          {FILTERS.map(([key, name]) => <a class="button tiny" href={withQuery({ show: key === "waiting" ? null : key, item: null })} aria-current={show === key ? "page" : undefined}>{name}</a>)}
        </nav>
      </header>
      <Loaded of={queue} rows={6}>
        {(data) =>
          shown.length === 0 && !id ? (
            <Empty title={show === "waiting" ? "Nothing waits for a review" : "No tasks"}>
              {show === "waiting" && <p>Finished tasks of plans come here, with what they changed.</p>}
            </Empty>
          ) : (
            <ListDetail
              label="Queue"
              isOpen={id !== null}
              openId={id}
              onClose={() => go(withQuery({ item: null }))}
              list={
                <>
                  {fresh > 0 && <button type="button" class="button tiny review-fresh" onClick={release}>{fresh} new</button>}
                  <ul class="plain review-list" aria-label="Finished tasks">
                    {shown.map(({ item, gone }) => <Row key={item.id} entry={item} gone={gone} isOpen={item.id === id} isSelected={selected.includes(item.id)} onSelect={() => toggle(item.id)} />)}
                  </ul>
                  {low.length > 1 && show === "waiting" && (
                    <p class="review-low">
                      <button type="button" class="button tiny" onClick={() => setSelected(low)}>Select {low.length} with low risk</button>
                    </p>
                  )}
                  {chosen.length > 0 && (
                    <div class="review-chosen">
                      <ActBar subjects={chosen} />
                      <button type="button" class="button tiny" onClick={() => setSelected([])}>Clear the selection</button>
                    </div>
                  )}
                  {data.total > data.entries.length && <p class="faint">The first {data.entries.length} of {data.total}.</p>}
                </>
              }
              detail={id ? <Detail key={id} id={id} selected={chosen} next={next} clear={() => setSelected([])} /> : <Empty title="Choose a task"><p>Its changes, checks and comments stand here.</p></Empty>}
            />
          )
        }
      </Loaded>
    </div>
  );
}

function Row({ entry, gone, isOpen: isCurrent, isSelected, onSelect }: { entry: ReviewEntry; gone: boolean; isOpen: boolean; isSelected: boolean; onSelect: () => void }) {
  const checks = countChecks(entry);
  const unsolved = entry.comments.unsent + entry.comments.open + entry.comments.delivered;
  return (
    <li class={`review-row${isCurrent ? " is-current" : ""}${gone ? " is-gone" : ""}`} data-item data-id={entry.id}>
      <input type="checkbox" aria-label={`Select ${entry.name}`} checked={isSelected} onChange={onSelect} />
      <a href={withQuery({ item: entry.id, round: null, since: null, beside: null })} aria-current={isCurrent ? "true" : undefined} data-main data-keeps-scroll>
        <span class="review-name">{reveal(entry.name)}</span>
        <span class="review-facts">
          {entry.weakened && <span class="tone-bad" title="Tests say less than before">▲ tests</span>}
          {entry.added != null ? <><span class="tone-good">+{entry.added.toLocaleString()}</span> <span class="tone-bad">−{(entry.removed ?? 0).toLocaleString()}</span></> : <span title={entry.warning ?? ""}>± unknown</span>}
          {entry.checks.length > 0 ? (
            <span class={checks.failed ? "tone-bad" : checks.open ? "tone-warn" : "tone-good"}>{checks.failed ? `✗ ${checks.failed}` : checks.open ? `${checks.open} not proved` : `✓ ${checks.passed}`}</span>
          ) : (
            <span>no checks</span>
          )}
          {entry.rounds.length > 1 && <span>round {entry.rounds.length}</span>}
          {unsolved > 0 && <span class="tone-warn">{formatCount(unsolved, "comment")}</span>}
          {hasDraft(`review:${entry.id}`) && <span class="tone-human">draft</span>}
        </span>
        <span class="review-facts faint">
          <span>{reveal(entry.run.name)}</span>
          {entry.agent && <span>{entry.agent}</span>}
          <Ago at={entry.done_at} />
          {gone && <strong>decided</strong>}
          {entry.approval_id && !gone && <strong>waits for you</strong>}
        </span>
      </a>
    </li>
  );
}

function Detail({ id, selected, next, clear }: { id: string; selected: Subject[]; next: () => void; clear: () => void }) {
  const found = useResource<TaskReview>(`/review/${encodeURIComponent(id)}`, affects);
  const focused = found.data ? asSubject(found.data.entry) : null;
  useFocus({ focused, selected, next, clear });
  return (
    <Loaded of={found} rows={8}>
      {(data) => (
        <article class="review-task">
          <header class="review-head">
            <h2><a href={taskAddress(id)}>{reveal(data.entry.name)}</a></h2>
            <p class="review-facts">
              <Standing of={data.entry} status={data.entry.state ?? ""} />
              <a href={runAddress(data.entry.run.id)}>{reveal(data.entry.run.name)}</a>
              {data.entry.spent?.usd ? <span class="faint">{dollars(data.entry.spent.usd)}</span> : null}
              {data.entry.reviewed_by && <span class="tone-good">reviewed by {data.entry.reviewed_by.replace(/^human:/, "")} <Ago at={data.entry.reviewed_at} /></span>}
            </p>
            <Signals entry={data.entry} />
          </header>
          <ActBar subject={focused} />
          <div class={query.value.has("beside") ? "review-body is-beside" : "review-body"}>
            <Changes data={data} onChanged={found.reload} />
            <Aside data={data} onChanged={found.reload} />
          </div>
        </article>
      )}
    </Loaded>
  );
}

/** What a reviewer looks at first: tests that say less than before. */
function Signals({ entry }: { entry: ReviewEntry }) {
  return (
    <>
      {entry.warning && <p class="callout">{reveal(entry.warning)}</p>}
      {entry.weakened && (
        <section class="review-weak" aria-label="Weakened tests">
          <h3>▲ Tests say less than before</h3>
          <ul class="plain">{entry.weakened.map((each) => <Weak found={each} />)}</ul>
        </section>
      )}
      {entry.not_searched && <p class="callout">The change is too large to be searched for weakened tests as a whole.</p>}
    </>
  );
}

function Weak({ found }: { found: Weakened }) {
  return (
    <li>
      <button type="button" class="review-jump" onClick={() => jumpTo(found.path)}><code>{reveal(found.path)}</code></button> {describeWeakening(found)}
      {found.lines?.map((line) => <code class={line.side === "old" ? "review-weak-line is-removed" : "review-weak-line is-added"}>{line.side === "old" ? "−" : "+"}{line.line} {reveal(line.text)}</code>)}
    </li>
  );
}

function jumpTo(path: string): void {
  const file = [...document.querySelectorAll<HTMLElement>(".review-file")].find((each) => each.dataset.file === path);
  file?.scrollIntoView({ block: "start" });
  file?.focus({ preventScroll: true });
}

/** The diff, as it is or as it was handed in; two rounds side by side if asked. */
function Changes({ data, onChanged }: { data: TaskReview; onChanged: () => void }) {
  const { entry, comments } = data;
  const rounds = entry.rounds.length;
  const round = Number(query.value.get("round")) || null;
  const since = query.value.get("since");
  const beside = query.value.has("beside") && rounds > 1;
  const last = comments.filter((each) => each.sent_at && each.state !== "withdrawn").at(-1);
  return (
    <div class="review-changes">
      {(rounds > 1 || last) && (
        <nav class="review-filters" aria-label="Which changes">
          <a class="button tiny" href={withQuery({ round: null, since: null, beside: null })} aria-current={!round && !since && !beside ? "true" : undefined} data-keeps-scroll>All changes</a>
          {last && <a class="button tiny" href={withQuery({ since: last.id, round: null, beside: null })} aria-current={since ? "true" : undefined} data-keeps-scroll>Since your comments</a>}
          {rounds > 1 && <a class="button tiny" href={withQuery({ beside: 1, round: round ?? rounds - 1, since: null })} aria-current={beside ? "true" : undefined} data-keeps-scroll>Rounds side by side</a>}
        </nav>
      )}
      {beside ? (
        <div class="review-beside">
          {[Math.min(round ?? rounds - 1, rounds - 1), rounds].map((number) => (
            <section aria-label={`Round ${number}`}>
              <h3>Round {number} <span class="faint">{entry.rounds[number - 1]?.agent} <Ago at={entry.rounds[number - 1]?.done_at} /></span></h3>
              <Patch key={number} data={data} question={`?round=${number}`} isPast onChanged={onChanged} />
            </section>
          ))}
        </div>
      ) : (
        <Patch key={`${round} ${since}`} data={data} question={since ? `?since=${encodeURIComponent(since)}` : round ? `?round=${round}` : ""} isPast={Boolean(since || round)} onChanged={onChanged} />
      )}
    </div>
  );
}

function Patch({ data, question, isPast, onChanged }: { data: TaskReview; question: string; isPast: boolean; onChanged: () => void }) {
  const { entry, comments } = data;
  const address = `/review/${encodeURIComponent(entry.id)}/patch${question}`;
  const first = useResource<ReviewPatch>(address, (event) => affects(event) && !event.type.startsWith("comment:"));
  const [more, setMore] = useState<{ of: ReviewPatch | null; pages: ReviewPatch[] }>({ of: null, pages: [] });
  const pages = first.data ? [first.data, ...(more.of === first.data ? more.pages : [])] : [];
  const end = pages[pages.length - 1]?.cursor ?? null;
  const parts = useMemo(() => new Map(pages.flatMap((page) => [...splitPatch(page.patch)])), [first.data, more]);
  const [asked, setAsked] = useState<CommentPlace | null>(null);
  const pane = useRef<HTMLDivElement>(null);
  const loadMore = async () => {
    const { data: page } = await read<ReviewPatch>(`${address}${question ? "&" : "?"}cursor=${encodeURIComponent(end!)}`);
    setMore({ of: first.data, pages: [...pages.slice(1), page] });
  };
  const files = (): HTMLElement[] => [...(pane.current?.querySelectorAll<HTMLElement>(".review-file") ?? [])];
  const stepFile = (by: number) => {
    const all = files();
    if (all.length === 0) return false;
    const current = all.findIndex((each) => each.contains(document.activeElement));
    const next = all[current === -1 ? (by > 0 ? 0 : all.length - 1) : Math.max(0, Math.min(all.length - 1, current + by))]!;
    next.scrollIntoView({ block: "start" });
    next.focus({ preventScroll: true });
    return true;
  };
  const canComment = !isPast && !entry.has_landed && can("comment_on_task");
  useKey("n", () => stepFile(1), "Next file");
  useKey("p", () => stepFile(-1), "Previous file");
  useKey("c", () => {
    const line = (document.activeElement as HTMLElement | null)?.closest<HTMLElement>(".review-line");
    const file = document.activeElement?.closest<HTMLElement>(".review-file") ?? files()[0];
    const target = line ?? file?.querySelector<HTMLElement>('.review-line[tabindex="0"]') ?? pane.current?.querySelector<HTMLElement>(".review-line");
    target?.click();
    return Boolean(target);
  }, "Comment on the line");
  const sent = () => {
    onChanged();
    first.reload();
  };
  return (
    <div ref={pane}>
      <Loaded of={first} rows={6}>
        {(patch) => (
          <>
            {patch.warning && <p class="callout">{reveal(patch.warning)}</p>}
            {patch.files_count === 0 && !patch.warning && <Empty title="Nothing changed" />}
            {patch.files.map((file) => (
              <ReviewFileDiff
                key={file.path}
                task={entry.id}
                name={entry.name}
                file={file}
                diff={parts.get(file.path) ?? (pages.some((page) => page.cursor) && end !== null ? null : "")}
                comments={isPast ? [] : comments.filter((each) => each.path === file.path)}
                canComment={canComment}
                asked={asked?.path === file.path ? asked : null}
                onAsk={setAsked}
                onSent={sent}
              />
            ))}
            {patch.truncated && <p class="faint">A file is too large to be shown whole: <code>deepwork diff {entry.id} FILE</code> shows more.</p>}
            {end !== null && <button type="button" class="button" onClick={() => void loadMore()}>Load the next files of {formatCount(patch.files_count, "file")}</button>}
          </>
        )}
      </Loaded>
    </div>
  );
}

/** What the agent says, what checks said, the rounds and their comments, and decisions with their reasons. */
function Aside({ data, onChanged }: { data: TaskReview; onChanged: () => void }) {
  const { entry, comments } = data;
  const whole = useResource<{ decisions: Decision[] }>(`/tasks/${encodeURIComponent(entry.id)}`, affects);
  const outputs = new Map(data.outputs.map((each) => [each.check, each]));
  const paths = useMemo(() => new Set(comments.map((each) => each.path)), [comments]);
  return (
    <aside class="review-aside" aria-label="About the work">
      {data.outcome && <Section title="Outcome"><Prose text={data.outcome} /></Section>}
      <Section title="Checks" count={entry.checks.length}>
        {entry.checks.length === 0 && <p class="faint">None: nothing but you looks at this work.</p>}
        <ul class="plain">
          {entry.checks.map((check) => {
            const output = outputs.get(check.name)?.output;
            const isPassed = ["passed", "flaky"].includes(check.verdict ?? "") || Boolean(check.waived_by);
            return (
              <li>
                <State status={check.verdict ? (isPassed ? "passed" : "failed") : "pending"} word={humanize(check.verdict ?? "not proved")} isSmall /> <strong>{reveal(check.name)}</strong> <span class="faint">{check.tests_run != null && formatCount(check.tests_run, "test")} <Ago at={check.at} /></span>
                {output && <details><summary>Output</summary><pre tabIndex={0}>{reveal(output)}</pre></details>}
              </li>
            );
          })}
        </ul>
      </Section>
      {entry.risks.length > 0 && <p class="faint">Look at it alone: {describeRisks(entry.risks)}.</p>}
      {entry.rounds.length > 0 && (
        <Section title="Rounds" count={entry.rounds.length}>
          <ol class="plain">
            {entry.rounds.map((each) => (
              <li>
                <a href={withQuery({ round: each.number, since: null, beside: null })} data-keeps-scroll>Round {each.number}</a>{" "}
                <span class="faint">{each.agent} <Ago at={each.done_at} /></span>{" "}
                {each.comments > 0 && <span class={each.open ? "tone-warn" : "tone-good"}>{formatCount(each.comments, "comment")}{each.open ? `, ${each.open} open` : ", all closed"}</span>}
              </li>
            ))}
          </ol>
        </Section>
      )}
      {comments.length > 0 && (
        <Section title="Comments" count={comments.length}>
          <p class="faint">In {formatCount(paths.size, "file")}.</p>
          {comments.map((each: Comment) => <CommentCard comment={each} quotes onClosed={onChanged} />)}
        </Section>
      )}
      {whole.data && whole.data.decisions.length > 0 && (
        <Section title="Decisions" count={whole.data.decisions.length}>
          <ul class="plain">{whole.data.decisions.map((each) => <li>{reveal(each.question)} <strong>{reveal(each.chosen)}</strong>{each.reasoning && <> <span class="faint">because {reveal(each.reasoning)}</span></>}</li>)}</ul>
        </Section>
      )}
      <details>
        <summary>The task</summary>
        <Prose text={data.description || "No description."} />
      </details>
      <p class="faint"><a href={taskAddress(entry.id)}>Everything about this task</a></p>
    </aside>
  );
}
