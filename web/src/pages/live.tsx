/** Agents at work: what each does now, and at the right its transcript, its changes, and a box to tell it something. */

import { Component, type ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { registerActs, useFocus, type Subject } from "../acts";
import { absolute, duration, now, shortClock } from "../clock";
import { callTool } from "../data/api";
import { useDraft } from "../data/drafts";
import { me } from "../data/live";
import { anyOf, LOOK_AGAIN, useResource } from "../data/resource";
import type { AgentLine, AgentRun, AgentRunsAnswer, Envelope, Word } from "../data/shapes";
import type { Lane, LanesAnswer, PatchAnswer, TakeoverAnswer } from "../data/shapes-live";
import { defineKind, touch, useEntity, useFrozen, useList, type Kind } from "../data/store";
import { parseTime } from "../data/tasks";
import { useTranscript } from "../data/transcript";
import { useKey } from "../keys";
import { go, query, taskAddress, withQuery } from "../router";
import { subject as windowSubject, type PageProps } from "../routes";
import { ActBar } from "../ui/actbar";
import { ListDetail } from "../ui/layout";
import { Ago, Copy, dollars, Empty, ErrorNotice, formatCount, Loaded, Skeleton, tokens } from "../ui/parts";
import { ShownDiff } from "../ui/shown";
import { Next, Standing } from "../ui/standing";
import { State } from "../ui/state";
import { Tabs } from "../ui/tabs";
import { describeDoing, findBlocks, nameAgent, sortLanes, summarize, toBlocks, type Block } from "../view/live";
import { reveal } from "../view/reveal";
import { Agents } from "./agents";
import "./live.css";

const PROGRESS = ["now_doing", "tool", "doing_since", "last_line", "context_tokens", "active_at", "outcome"] as const;

const lanes: Kind<Lane> = defineKind<Lane>({
  name: "lane",
  one: (id) => `/runner/lanes/${encodeURIComponent(id)}`,
  of: (event) => (event.type.startsWith("attempt:") ? String((event.data as { id?: unknown } | null)?.id ?? "") || null : null),
  apply: (lane, event) => (event.type === "attempt:progress" ? applyProgress(lane, event) : null),
  moves: (event) => event.type === "attempt:started" || event.type === "attempt:ended",
});

/** Progress says all that it changes: nothing is read again. */
function applyProgress(lane: Lane, event: Envelope): Lane {
  const told = event.data as unknown as Record<string, unknown>;
  const used = ["input_tokens", "cached_tokens", "output_tokens"].reduce((sum, name) => sum + Number(told[name] ?? 0), 0);
  const source = (told.usd_source as string | undefined) ?? lane.usd_source;
  const changes = Object.fromEntries(PROGRESS.map((name) => [name, told[name] ?? null]));
  return { ...lane, ...changes, quiet_since: null, usd_source: source, tokens: used || source ? used : null, usd: source ? Number(told.usd) : null };
}

const subjectOf = (lane: Lane): Subject<Lane> => ({ kind: "attempt", id: lane.id, title: `${nameAgent(lane.profile)} · ${lane.task_name}`, thing: lane });
const offers = (tool: string) => (about: Subject<Lane>) => about.kind === "attempt" && Boolean(about.thing.actions?.some((each) => each.tool === tool)) && (me.value.actions ?? []).includes(tool);

async function ask(tool: string, about: Subject<Lane>, key: string, text: string) {
  await callTool(tool, { attempt_id: about.id }, key);
  touch(lanes, about.id);
  return { text };
}

registerActs(
  { id: "live.continue", label: (about) => ((about.thing as Lane).parked_for === "taken" || (about.thing as Lane).wish === "take" ? "Hand back" : "Continue"), key: "c", isMain: true, stays: true, applies: offers("continue_attempt"), run: (about, _, { key }) => ask("continue_attempt", about, key, `${about.title} continues as soon as its runner starts it.`) },
  { id: "live.pause", label: "Pause", key: "p", stays: true, applies: offers("pause_attempt"), run: (about, _, { key }) => ask("pause_attempt", about, key, `Pausing ${about.title}. Its session continues when you say so.`) },
  { id: "live.take", label: "Take over", key: "t", stays: true, applies: offers("take_attempt"), run: (about, _, { key }) => ask("take_attempt", about, key, `You take over ${about.title}. Nothing else starts in its folder until you hand it back.`) },
  { id: "live.stop", label: "Stop", key: "S", isHarmful: true, applies: offers("stop_attempt"), run: (about, _, { key }) => ask("stop_attempt", about, key, `Stopping ${about.title}. Its work stays; retry the task to try again.`) },
);

const VIEWS = [
  { key: "work", name: "At work" },
  { key: "agents", name: "Registered agents" },
];

export default function Live(_: PageProps) {
  const show = query.value.get("show") === "agents" ? "agents" : "work";
  useEffect(() => {
    windowSubject.value = "Live";
  }, []);
  const tabs = <Tabs tabs={VIEWS} current={show} label="Agents" parameter="show" panel="main" />;
  if (show === "work") return <AtWork head={<div class="live-head"><p class="live-title" aria-hidden="true">Live</p>{tabs}</div>} />;
  return <Agents head={<div class="live-head"><h1>Live</h1>{tabs}</div>} />;
}

function AtWork({ head }: { head: ComponentChildren }) {
  const list = useList(lanes, "/runner/lanes", { pick: (answer: LanesAnswer) => answer.lanes, every: LOOK_AGAIN });
  const open = query.value.get("item");
  const sorted = useMemo(() => sortLanes(list.items), [list.items]);
  const { shown, fresh, release } = useFrozen(sorted, open !== null);
  const entity = useEntity(lanes, open);
  const lane = entity.data ?? shown.find((each) => each.item.id === open)?.item; // one that has ended is on no list any more
  useFocus({ focused: lane ? subjectOf(lane) : null });
  const close = () => go(withQuery({ item: null, view: null }));
  return (
    <div class="live">
      <h1 class="unseen">Live</h1>
      <ListDetail
        label="Live"
        isOpen={open !== null}
        openId={open}
        onClose={close}
        list={
          <div class="page live-page">
            {head}
            <CurrentRuns />
            {fresh > 0 && (
              <button type="button" class="button live-fresh" onClick={release}>
                {formatCount(fresh, "new agent")}
              </button>
            )}
            {list.data === null ? (
              list.error ? <ErrorNotice error={list.error} onRetry={list.reload} /> : <Skeleton rows={6} />
            ) : shown.length === 0 ? (
              <Empty title="No agent is at work">
                <p>
                  Let agents work on a plan with <code>deepwork run PLAN</code>.
                </p>
              </Empty>
            ) : (
              <ul class="live-lanes" aria-label="Agents at work">
                {shown.map(({ item, gone }) => (
                  <LaneRow key={item.id} lane={item.id === open && lane ? lane : item} isGone={gone} isOpen={item.id === open} />
                ))}
              </ul>
            )}
            {(list.data?.total ?? 0) > shown.length && <p class="faint">{formatCount((list.data.total as number) - shown.length, "more agent")} at work; `deepwork runs live` lists them.</p>}
            <OtherAgents known={sorted} />
          </div>
        }
        detail={
          open === null ? (
            <p class="faint live-nothing">Choose an agent to see what it does, what it changed, and to tell it something.</p>
          ) : lane ? (
            <LaneDetail key={lane.id} lane={lane} />
          ) : entity.error ? (
            <ErrorNotice error={entity.error} onRetry={entity.reload} />
          ) : (
            <Skeleton rows={8} />
          )
        }
      />
    </div>
  );
}

/** The runs that the agents belong to, each on one line: whether somebody drives it, and what it cost. */
function CurrentRuns() {
  const runs = useResource<AgentRunsAnswer>("/runner/runs?state=current&limit=50", (event) => event.type.startsWith("run:") || /^attempt:(started|updated|ended)$/.test(event.type), LOOK_AGAIN);
  if (!runs.data?.runs.length) return null;
  return (
    <ul class="live-runs" aria-label="Runs">
      {runs.data.runs.map((run) => (
        <RunLine key={run.id} run={run} />
      ))}
    </ul>
  );
}

function RunLine({ run }: { run: AgentRun }) {
  return (
    <li data-agent-run={run.id}>
      <State status={run.state ?? run.status} isSmall />
      <a href={`/work/${run.id}`}>{run.workflow?.name ?? run.id}</a>
      <span class="faint numbers">
        {dollars(run.usd ?? 0)}
        {run.max_usd != null && ` of ${dollars(run.max_usd)}`}
      </span>
      {run.state === "unattended" && run.next && (
        <span class="live-next">
          <code>{run.next}</code> <Copy small label="Copy command" text={run.next} />
        </span>
      )}
    </li>
  );
}

interface RowProps {
  lane: Lane;
  isOpen: boolean;
  isGone: boolean;
}

/** One agent; drawn again only if something about it changed. */
class LaneRow extends Component<RowProps> {
  override shouldComponentUpdate(next: RowProps): boolean {
    return next.lane !== this.props.lane || next.isOpen !== this.props.isOpen || next.isGone !== this.props.isGone;
  }

  override render({ lane, isOpen, isGone }: RowProps) {
    const doing = describeDoing(lane);
    return (
      <li class={`live-lane${isOpen ? " is-open" : ""}${isGone ? " is-gone" : ""}`} data-item data-lane={lane.id} data-state={lane.state}>
        <LaneState lane={lane} />
        <a class="live-name" data-main data-keeps-scroll href={withQuery({ item: lane.id })} aria-current={isOpen ? "true" : undefined}>
          {lane.task_name} <span class="faint">{nameAgent(lane.profile)}</span>
        </a>
        <span class="live-doing" title={doing}>
          {reveal(doing)}
          {lane.tool && !lane.wish && lane.stage === "running" && <Since at={lane.doing_since} />}
        </span>
        <span class="live-said faint" title={lane.last_line ?? undefined}>
          {lane.last_line ? reveal(lane.last_line) : "Has said nothing yet"}
        </span>
        <Usage lane={lane} />
      </li>
    );
  }
}

function LaneState({ lane, isWhole }: { lane: Lane; isWhole?: boolean }) {
  return (
    <span class={isWhole ? "live-state is-whole" : "live-state"}>
      {isWhole ? <Standing of={lane} status={lane.stage} /> : <State status={lane.state ?? lane.stage} />}
      {lane.not_before && lane.state === "parked" && <Countdown to={lane.not_before} />}
      {lane.quiet_since && lane.state === "running" && (
        <span class="tone-warn" title="It has written nothing and used no processor since">
          quiet since {shortClock(parseTime(lane.quiet_since)!)}
        </span>
      )}
    </span>
  );
}

/** How long something has been going on; it moves by itself. */
function Since({ at }: { at: unknown }) {
  const begun = parseTime(at);
  if (begun === null) return null;
  return (
    <time class="faint" dateTime={new Date(begun).toISOString()} title={absolute(begun)}>
      {" "}
      {duration(now.value - begun)}
    </time>
  );
}

function Countdown({ to }: { to: unknown }) {
  const end = parseTime(to);
  if (end === null) return null;
  const left = end - now.value;
  return (
    <time class="faint" dateTime={new Date(end).toISOString()} title={absolute(end)}>
      {left > 0 ? `for ${duration(left)}` : "continues soon"}
    </time>
  );
}

const UNKNOWN = "Its vendor has not said";

function Usage({ lane }: { lane: Lane }) {
  return (
    <span class="live-usage numbers">
      <span>
        <Since at={lane.started_at ?? lane.created_at} />
      </span>
      <span title={lane.tokens == null ? UNKNOWN : "Tokens, read and written"}>{lane.tokens == null ? "tokens ?" : `${tokens(lane.tokens)} tokens`}</span>
      <span title={lane.usd == null ? UNKNOWN : (lane.usd_source ?? undefined)}>{lane.usd == null ? "$ ?" : dollars(lane.usd)}</span>
      <span title={lane.context_tokens == null ? UNKNOWN : "Tokens in its context now"}>{lane.context_tokens == null ? "context ?" : `${tokens(lane.context_tokens)} context`}</span>
    </span>
  );
}

/** Agents that deepwork did not start, with the tasks that they hold. */
function OtherAgents({ known }: { known: readonly Lane[] }) {
  const found = useResource<{ agents: AgentLine[] }>("/agents?limit=200", anyOf("agent", "plan_task"), LOOK_AGAIN);
  const held = new Set(known.map((lane) => lane.task_id));
  const others = (found.data?.agents ?? []).filter((agent) => agent.holds?.some((each) => !held.has(each.id)));
  if (others.length === 0) return null;
  return (
    <section aria-label="Other agents">
      <h2 class="live-others">Not started by deepwork</h2>
      <ul class="live-runs">
        {others.map((agent) => (
          <li key={agent.id} data-agent={agent.id}>
            <State status={agent.status} isSmall />
            <a href={`/live?show=agents&agent=${encodeURIComponent(agent.id)}`}>{agent.name}</a>
            <span class="faint">on</span>
            {agent.holds!.slice(0, 3).map((each) => (
              <a href={taskAddress(each.id)}>{each.name}</a>
            ))}
            <span class="faint">
              last sign of life <Ago at={agent.last_heartbeat} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

// At the right

const TABS = [
  { key: "transcript", name: "Transcript" },
  { key: "changes", name: "Changes" },
];

function LaneDetail({ lane }: { lane: Lane }) {
  const view = query.value.get("view") === "changes" ? "changes" : "transcript";
  return (
    <article class="live-detail" aria-label={`${nameAgent(lane.profile)} · ${lane.task_name}`}>
      <header class="live-detail-head">
        <h2>
          <a href={taskAddress(lane.task_id)}>{lane.task_name}</a> <span class="faint">{nameAgent(lane.profile)}</span>
        </h2>
        <LaneState lane={lane} isWhole />
        <p class="faint live-facts">
          {[lane.workflow?.name, lane.model, lane.branch, lane.number > 1 ? `attempt ${lane.number}` : null, lane.starts > 1 ? `start ${lane.starts}` : null].filter(Boolean).join(" · ")}
        </p>
        <Usage lane={lane} />
        {lane.reason && lane.stage !== "running" && !lane.because?.includes(lane.reason) && <p>{reveal(lane.reason)}</p>}
        <Next of={lane} />
        <Takeover lane={lane} />
        <ActBar subject={subjectOf(lane)} />
      </header>
      <Tabs tabs={TABS} current={view} label="What to see" parameter="view" />
      <div id="panel" role="tabpanel" aria-labelledby={`tab-${view}`} class="live-panel">
        {view === "changes" ? <Changes lane={lane} /> : <Transcript id={lane.id} isAtWork={lane.stage === "running"} />}
      </div>
      <TellBox lane={lane} />
    </article>
  );
}

/** The command that continues the session in a terminal, as soon as its agent has ended. */
function Takeover({ lane }: { lane: Lane }) {
  const isTaken = lane.parked_for === "taken" && lane.wish !== "continue";
  const found = useResource<TakeoverAnswer>(isTaken || lane.wish === "take" ? `/runner/attempts/${encodeURIComponent(lane.id)}/takeover` : null);
  if (lane.wish === "take" && !isTaken) return <p role="status">Its agent is ending. The command to continue its session comes then.</p>;
  if (!isTaken || !found.data) return null;
  const { command, host, has_session, folder } = found.data;
  return (
    <div class="live-takeover" role="status">
      <p>
        {has_session ? "Continue its session in a terminal" : "It has no session that could continue; its files are in its folder"}
        {host !== "local" && ` on ${host}`}. Nothing starts there until you hand it back.
      </p>
      {command && (
        <p class="live-next">
          <code>{command}</code> <Copy label="Copy command" text={command} />
        </p>
      )}
      {!command && folder && <code>{folder}</code>}
    </div>
  );
}

// The transcript

const CHUNK = 40;
const ROW = 34;

function Transcript({ id, isAtWork }: { id: string; isAtWork: boolean }) {
  const { entries, hasEarlier, isLoading, error, reason, loadEarlier } = useTranscript(id);
  const [wanted, setWanted] = useState("");
  const [isSearching, setSearching] = useState(false);
  const blocks = useMemo(() => toBlocks(entries), [entries]);
  const found = useMemo(() => (wanted.trim() ? findBlocks(blocks, wanted) : null), [blocks, wanted]);
  const shown = found ? found.map((at) => blocks[at]!) : blocks;
  const field = useRef<HTMLInputElement>(null);
  if (isLoading) return <Skeleton rows={6} />;
  return (
    <>
      <div class="live-search">
        <input ref={field} type="search" data-search placeholder="Search the transcript" aria-label="Search the transcript" value={wanted} onInput={(event) => setWanted(event.currentTarget.value)} />
        {found && <span class="faint" role="status">{formatCount(found.length, "match", "matches")}</span>}
        {found && hasEarlier && (
          <button
            type="button"
            class="button tiny"
            disabled={isSearching}
            onClick={() => {
              setSearching(true);
              void loadEarlier(true).then(() => setSearching(false));
            }}
          >
            {isSearching ? "Reading …" : "Search earlier output, too"}
          </button>
        )}
      </div>
      {error && <ErrorNotice error={error} />}
      {entries.length === 0 && !hasEarlier && <p class="faint">{reason ?? "It has written nothing yet."}</p>}
      <Blocks blocks={shown} hasEarlier={hasEarlier && !found} onEarlier={() => loadEarlier()} follows={!found} isFiltered={found !== null} isAtWork={isAtWork} />
    </>
  );
}

interface BlocksProps {
  blocks: readonly Block[];
  hasEarlier: boolean;
  onEarlier: () => Promise<void>;
  follows: boolean;
  isFiltered: boolean;
  isAtWork: boolean;
}

/** A long list of blocks of any height: those far from what is seen are empty room of the height that they had. */
function Blocks({ blocks, hasEarlier, onEarlier, follows, isFiltered, isAtWork }: BlocksProps) {
  const box = useRef<HTMLDivElement>(null);
  const [atEnd, setAtEnd] = useState(true);
  const isEarlier = useRef(false);
  const height = useRef(0);
  const first = useRef<string | undefined>(undefined);

  useEffect(() => {
    const element = box.current!;
    if (isEarlier.current && first.current !== blocks[0]?.key) element.scrollTop += element.scrollHeight - height.current; // what is read stays where it is
    else if (follows && atEnd) element.scrollTop = element.scrollHeight;
    first.current = blocks[0]?.key;
    height.current = element.scrollHeight;
  }, [blocks, follows]);

  const earlier = async () => {
    if (isEarlier.current || !hasEarlier) return;
    isEarlier.current = true;
    height.current = box.current!.scrollHeight;
    await onEarlier();
    requestAnimationFrame(() => (isEarlier.current = false));
  };

  // Chunks are counted from the end of the first page on, so that a new block changes only the last one.
  const chunks: Block[][] = [];
  for (let at = 0; at < blocks.length; at += CHUNK) chunks.push(blocks.slice(at, at + CHUNK) as Block[]);
  return (
    <div class="live-blocks-room">
      <div
        ref={box}
        class="live-blocks"
        tabIndex={0}
        role="log"
        aria-label="Transcript"
        aria-live="off"
        onScroll={({ currentTarget: at }) => {
          setAtEnd(at.scrollHeight - at.scrollTop - at.clientHeight < 30);
          if (at.scrollTop < 200) void earlier();
        }}
      >
        {hasEarlier && (
          <button type="button" class="button tiny" onClick={() => void earlier()}>
            Show earlier
          </button>
        )}
        {chunks.map((chunk) => (
          <Chunk key={chunk[0]!.key} blocks={chunk} root={box} isOpen={isFiltered && blocks.length <= 5} isAtWork={isAtWork} />
        ))}
      </div>
      {!atEnd && (
        <button type="button" class="button live-end" onClick={() => box.current!.scrollTo({ top: box.current!.scrollHeight })}>
          Follow the end
        </button>
      )}
    </div>
  );
}

function Chunk({ blocks, root, isOpen, isAtWork }: { blocks: Block[]; root: { current: HTMLDivElement | null }; isOpen: boolean; isAtWork: boolean }) {
  const [isNear, setNear] = useState(true);
  const place = useRef<HTMLDivElement>(null);
  const height = useRef(0);
  useEffect(() => {
    const observer = new IntersectionObserver(
      ([entry]) => {
        if (!entry!.isIntersecting) height.current = entry!.boundingClientRect.height;
        setNear(entry!.isIntersecting);
      },
      { root: root.current, rootMargin: "1500px 0px" },
    );
    observer.observe(place.current!);
    return () => observer.disconnect();
  }, []);
  return (
    <div ref={place} style={isNear ? undefined : { height: `${height.current || blocks.length * ROW}px` }}>
      {isNear && blocks.map((block) => <BlockRow key={block.key} block={block} isOpen={isOpen} isAtWork={isAtWork} />)}
    </div>
  );
}

const TITLES: Partial<Record<Block["kind"], string>> = { prompt: "What it was told", thought: "Thought", session: "Session", limit: "Limit", failure: "Failed request", note: "Note" };

function BlockRow({ block, isOpen: opensItself, isAtWork }: { block: Block; isOpen: boolean; isAtWork: boolean }) {
  const [chosen, choose] = useState<boolean | null>(null);
  const isOpen = chosen ?? opensItself;
  if (block.kind === "said") return <div class="live-block is-said">{reveal(block.text)}</div>;
  if (block.kind === "output") return <pre class="live-block is-output">{reveal(block.text)}</pre>;
  if (block.kind === "end") {
    return (
      <p class={`live-block is-end ${block.isError ? "tone-bad" : "tone-good"}`}>
        {block.isError ? "Ended with an error" : "Ended its turn"}
        {block.text && `: ${reveal(block.text)}`}
      </p>
    );
  }
  if (["session", "limit", "failure", "note"].includes(block.kind)) {
    return (
      <p class={`live-block is-note ${block.kind === "limit" || block.kind === "failure" ? "tone-warn" : "faint"}`}>
        {TITLES[block.kind]}: {reveal(block.text)}
        {block.name && ` · ${block.name}`}
      </p>
    );
  }
  const isTool = block.kind === "tool";
  const title = isTool ? block.name || "Tool" : block.kind === "prompt" ? `${TITLES.prompt}${block.name === "1" ? "" : `, start ${block.name}`}` : TITLES[block.kind];
  return (
    <div class={`live-block is-tool${block.isError ? " is-error" : ""}`} data-tool={isTool ? block.name : undefined}>
      <button type="button" class="live-fold" aria-expanded={isOpen} onClick={() => choose(!isOpen)}>
        <span class={isOpen ? "twist is-open" : "twist"} aria-hidden="true">
          <svg viewBox="0 0 10 10"><path d="M3 1.5l4 3.5-4 3.5" /></svg>
        </span>
        <strong>{title}</strong>
        <span class="live-fold-text">{reveal(isTool ? summarize(block.text) : block.text.trim().split("\n", 1)[0]!.slice(0, 200))}</span>
        {isTool && <span class={block.isError ? "tone-bad" : "faint"}>{block.answer === null ? (isAtWork ? "running" : "no answer") : block.isError ? "failed" : ""}</span>}
      </button>
      {isOpen && (
        <>
          {block.text && <pre tabIndex={0}>{reveal(block.text)}</pre>}
          {block.answer !== null && <pre tabIndex={0} class="live-answer">{reveal(block.answer || "(no output)")}</pre>}
        </>
      )}
    </div>
  );
}

// Its changes

function Changes({ lane }: { lane: Lane }) {
  const about = (event: Envelope) => event.type.startsWith("attempt:") && (event.data as { id?: string } | null)?.id === lane.id;
  const patch = useResource<PatchAnswer>(lane.task_id.startsWith("tk_") ? `/tasks/${encodeURIComponent(lane.task_id)}/patch` : null, about, lane.ended_at ? undefined : LOOK_AGAIN);
  if (!lane.task_id.startsWith("tk_")) return <p class="faint">The steps of a job share one tree: {lane.tree ?? "it is not known yet"}.</p>;
  return (
    <Loaded of={patch} rows={4}>
      {(data) => (
        <>
          {data.warning && <p class="stale-note">{data.warning}</p>}
          {data.files_count === 0 ? (
            <p class="faint">It has changed nothing yet.</p>
          ) : (
            <>
              <p class="faint">
                {formatCount(data.files_count, "file")} changed since {data.base ? <code>{data.base.slice(0, 10)}</code> : "it began"}
                {data.is_running && ", so far"}
              </p>
              <ul class="live-files">
                {data.files.map((file) => (
                  <li key={file.path}>
                    <code>{reveal(file.path)}</code>
                    <span class="numbers">
                      {file.added != null && <span class="tone-good">+{file.added}</span>} {file.removed != null && <span class="tone-bad">−{file.removed}</span>}
                    </span>
                  </li>
                ))}
              </ul>
              <ShownDiff text={data.patch} label="Patch" />
              {data.truncated && <p class="faint">The patch is longer; `deepwork diff {lane.task_id}` shows all of it.</p>}
            </>
          )}
        </>
      )}
    </Loaded>
  );
}

// Telling it something

const REACHES: Record<string, string> = {
  next_call: "arrives after the tool call that it is in",
  next_start: "opens its next start",
  next_agent: "opens the prompt of the next agent",
  never: "never delivered: the task is done",
};

function TellBox({ lane }: { lane: Lane }) {
  const draft = useDraft(`tell:${lane.task_id}`);
  const [refusal, setRefusal] = useState("");
  const [isSending, setSending] = useState(false);
  const box = useRef<HTMLTextAreaElement>(null);
  const [waits, setWaits] = useState(false);
  const words = useResource<{ words: Word[] }>(`/tasks/${encodeURIComponent(lane.task_id)}/words`, (event) => event.type.startsWith("attempt:"), waits ? 3000 : undefined);
  const told = words.data?.words ?? [];
  useEffect(() => setWaits(told.some((each) => !each.delivered_at && each.reaches !== "never")), [words.data]);
  useKey("m", () => box.current?.focus(), "Tell the open agent something");
  const may = (me.value.actions ?? []).includes("tell");
  const tell = async (isNow: boolean) => {
    setSending(true);
    setRefusal("");
    try {
      await callTool("tell", { to: lane.task_id, text: draft.text, now: isNow }, crypto.randomUUID());
      draft.clear();
      words.reload();
    } catch (error) {
      setRefusal((error as Error).message);
    }
    setSending(false);
  };
  return (
    <section class="live-tell" aria-label="Tell it something">
      {told.length > 0 && (
        <ol class="live-words" aria-label="What it was told">
          {told.slice(-5).map((each) => (
            <li key={each.id}>
              <span>{reveal(each.text)}</span>{" "}
              <span class="faint" data-delivery={each.delivered_at ? "delivered" : "waiting"}>
                {each.delivered_at ? <>delivered at {shortClock(parseTime(each.delivered_at)!)}{each.start && `, in start ${each.start}`}</> : (REACHES[each.reaches ?? ""] ?? "not delivered yet")}
              </span>
            </li>
          ))}
        </ol>
      )}
      {may && (
        <form
          onSubmit={(event) => {
            event.preventDefault();
            if (draft.text.trim()) void tell(false);
          }}
        >
          <textarea
            ref={box}
            rows={2}
            aria-label="Tell it something"
            placeholder="Tell it something"
            value={draft.text}
            onInput={(event) => draft.set(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && draft.text.trim()) {
                event.preventDefault();
                void tell(false);
              }
            }}
          />
          <div class="live-tell-foot">
            <button type="submit" class="button primary" disabled={isSending || !draft.text.trim()}>
              Tell
            </button>
            <button type="button" class="button" disabled={isSending || !draft.text.trim() || lane.stage !== "running"} title="Interrupts the agent; its session continues with your words" onClick={() => void tell(true)}>
              Interrupt and tell
            </button>
          </div>
          {refusal && <p class="form-error" role="alert">{refusal}</p>}
        </form>
      )}
    </section>
  );
}
