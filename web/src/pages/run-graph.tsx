/** The dependency graph of a run. It opens where work goes on: finished levels are folded. */

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { ago, duration, now } from "../clock";
import { ofRun, useResource } from "../data/resource";
import type { RunDetails } from "../data/shapes";
import type { DrawnGraph, DrawnNode } from "../data/shapes-run";
import { go, query, replace, withQuery } from "../router";
import { Empty, Loaded, formatCount } from "../ui/parts";
import { getLook, Shape, State } from "../ui/state";
import { criticalPath, foldToFit, placeNodes, type Graph, type Node } from "../view/layers";

const WIDE = 190;
const HIGH = 40;
const GAP_X = 64;
const GAP_Y = 14;
const EDGES_SHOWN = 200;

export function GraphTab({ run }: { run: RunDetails }) {
  const opened = query.value.get("open") ?? "";
  const wanted = opened.split(",").includes(WHOLE) ? "whole=true" : `open=${encodeURIComponent(opened)}`;
  const graph = useResource<DrawnGraph>(`/runs/${encodeURIComponent(run.id)}/graph?${wanted}`, (event) => ofRun(run.id)(event) && /^(task|plan_task|phase|plan|session|attempt|landing):/.test(event.type));
  // What is open stays shown until the next answer is there.
  const last = useRef<DrawnGraph | null>(null);
  if (graph.data) last.current = graph.data;
  const shown = graph.data ?? (graph.error ? null : last.current);
  return <Loaded of={{ ...graph, data: shown }}>{(data) => (data.nodes.length === 0 ? <Empty title="Nothing to draw yet" /> : <Drawing answer={data} />)}</Loaded>;
}

/** Among what is open: nothing is folded by the server. */
const WHOLE = "all";
const ACTIVE = new Set(["failed", "needs_you", "unattended", "running", "parked", "ready", "in_progress"]);

function Drawing({ answer }: { answer: DrawnGraph }) {
  const opened = useMemo(() => new Set((query.value.get("open") ?? "").split(",").filter(Boolean)), [query.value.get("open")]);
  const isCritical = query.value.get("critical") !== "off";
  const chosen = query.value.get("task");
  const [scale, setScale] = useState(1);
  const [words, setWords] = useState("");
  const room = useRef<HTMLDivElement>(null);
  // The layout depends on which nodes and edges there are, not on any state.
  const outline = answer.nodes.map((node) => node.id).join() + answer.edges.length;
  const shape = useMemo(() => foldToFit({ nodes: answer.nodes.map(({ members: _, ...node }) => node), edges: answer.edges }, opened), [outline, opened]);
  const placed = useMemo(() => placeNodes(shape), [shape]);
  const sent = new Map(answer.nodes.map((node) => [node.id, node]));
  const nodes: (Node & DrawnNode)[] = shape.nodes.map((node) => ({ ...node, ...sent.get(node.id), members: node.members?.map((member) => sent.get(member.id) ?? member) }) as Node & DrawnNode);
  const hasFolds = answer.nodes.some((node) => node.kind === "fold");
  const path = useMemo(() => new Set(isCritical && !hasFolds ? criticalPath(shape, () => 1) : []), [shape, isCritical]);
  const parts = words.toLowerCase().split(/\s+/).filter(Boolean);
  const found = new Set(parts.length ? nodes.filter((node) => parts.every((part) => `${node.name} ${node.agent ?? ""} ${node.id}`.toLowerCase().includes(part))).map((node) => node.id) : []);

  const columns = Math.max(...[...placed.values()].map((at) => at.x)) + 1;
  const lines = Math.max(...[...placed.values()].map((at) => at.y)) + 1;
  const x = (id: string) => placed.get(id)!.x * (WIDE + GAP_X) + 12;
  const y = (id: string) => placed.get(id)!.y * (HIGH + GAP_Y) + 12;
  const width = columns * (WIDE + GAP_X) - GAP_X + 24;
  const height = lines * (HIGH + GAP_Y) - GAP_Y + 24;
  const show = (id: string | undefined, at = scale) => {
    if (!id || !room.current || !placed.has(id)) return;
    room.current.scrollTo({ left: x(id) * at - room.current.clientWidth / 3, top: y(id) * at - room.current.clientHeight / 2 });
  };
  // It opens where work goes on.
  useEffect(() => show((nodes.find((node) => ACTIVE.has(statusOf(node))) ?? nodes[nodes.length - 1])?.id), []);
  const fit = () => {
    if (room.current) setScale(Math.max(0.2, Math.min(1, room.current.clientWidth / width, room.current.clientHeight / height)));
  };
  const pick = (node: Node) => {
    if (node.kind === "phase" || node.kind === "level") return;
    if (node.kind === "fold" && node.id.startsWith("fold:")) replace(withQuery({ open: [...opened, WHOLE].join(",") }));
    else if (node.members || node.kind === "fold") replace(withQuery({ open: [...opened, node.id].join(",") }));
    else go(withQuery({ task: node.id }));
  };
  const total = answer.nodes.reduce((sum, node) => sum + (node.kind === "fold" ? Object.values(node.states ?? {}).reduce((all, n) => all + n, 0) : node.kind === "task" || !node.kind ? 1 : 0), 0);
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Graph">
        <input
          type="search"
          data-search
          placeholder="Find a task or an agent"
          aria-label="Find a task or an agent"
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
          onKeyDown={(event) => event.key === "Enter" && show([...found][0])}
        />
        {parts.length > 0 && (
          <span class="faint" role="status">
            {found.size ? `${found.size} found` : <>None shown here. <a href={withQuery({ tab: "tasks", q: words })}>Look in all tasks</a></>}
          </span>
        )}
        {!hasFolds && (
          <button type="button" class="button" aria-pressed={isCritical} onClick={() => go(withQuery({ critical: isCritical ? "off" : null }))}>
            Critical path
          </button>
        )}
        {opened.size > 0 && (
          <button type="button" class="button" onClick={() => replace(withQuery({ open: null }))}>
            Collapse all
          </button>
        )}
        <span class="tools-group" role="group" aria-label="Zoom">
          <button type="button" class="button" aria-label="Zoom out" onClick={() => setScale(Math.max(0.2, scale / 1.25))}>
            −
          </button>
          <button type="button" class="button" onClick={() => setScale(1)}>
            {Math.round(scale * 100)} %
          </button>
          <button type="button" class="button" aria-label="Zoom in" onClick={() => setScale(Math.min(2, scale * 1.25))}>
            +
          </button>
          <button type="button" class="button" onClick={fit}>
            Fit
          </button>
        </span>
        <span class="faint numbers">
          {formatCount(total, "task")}
          {shape.nodes.length < total && `, drawn as ${shape.nodes.length}`}
        </span>
      </div>
      <div class={parts.length ? "graph graph-found" : "graph"} ref={room} tabIndex={0} role="region" aria-label="Graph of tasks">
        <div class="graph-room" style={{ width: `${width * scale}px`, height: `${height * scale}px` }}>
          <div class="graph-inner" style={{ width: `${width}px`, height: `${height}px`, transform: `scale(${scale})` }}>
            <svg class="edges" width={width} height={height} aria-hidden="true">
              <defs>
                <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto">
                  <path d="M0 0.8L7 4L0 7.2z" />
                </marker>
              </defs>
              {shape.edges.map(([from, to]) => {
                if (!placed.has(from) || !placed.has(to)) return null;
                const [x1, y1, x2, y2] = [x(from) + WIDE, y(from) + HIGH / 2, x(to) - 2, y(to) + HIGH / 2];
                const bend = Math.max(24, (x2 - x1) / 2);
                return <path class={path.has(from) && path.has(to) ? "edge is-critical" : "edge"} d={`M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`} marker-end="url(#arrow)" />;
              })}
            </svg>
            <ul class="nodes" aria-label="Tasks">
              {nodes.map((node) => (
                <li key={node.id} style={{ left: `${x(node.id)}px`, top: `${y(node.id)}px`, width: `${WIDE}px`, height: `${HIGH}px` }}>
                  <GraphBox node={node} isChosen={node.id === chosen} isCritical={path.has(node.id)} isFound={found.has(node.id)} onPick={() => pick(node)} />
                </li>
              ))}
            </ul>
          </div>
        </div>
      </div>
      <EdgeTable graph={{ nodes: answer.nodes as Node[], edges: answer.edges }} />
    </>
  );
}

function statusOf(node: Node): string {
  return node.state ?? node.status;
}

function GraphBox({ node, isChosen, isCritical, isFound, onPick }: { node: Node & DrawnNode; isChosen: boolean; isCritical: boolean; isFound: boolean; onPick: () => void }) {
  const isFold = Boolean(node.members) || node.kind === "fold";
  const status = statusOf(node);
  const look = getLook(status);
  const isWaiting = ["pending", "ready", "waiting"].includes(status);
  if (node.kind === "phase" || node.kind === "level") {
    return (
      <div class={`node tone-${look.tone} is-phase${isCritical ? " is-critical" : ""}`} title={node.name}>
        <Shape name={look.shape} />
        <span class="node-text">
          <span class="node-name">{node.name}</span>
          <span class="node-word">
            {node.kind}, {look.word}
          </span>
        </span>
      </div>
    );
  }
  return (
    <button type="button" class={`node tone-${look.tone}${isWaiting ? " is-waiting" : ""}${isChosen ? " is-chosen" : ""}${isCritical ? " is-critical" : ""}${isFold ? " is-folded" : ""}${isFound ? " is-found" : ""}`} data-item aria-pressed={isFold ? undefined : isChosen} onClick={onPick} title={node.name}>
      <Shape name={look.shape} />
      <span class="node-text">
        <span class="node-name">{node.name}</span>
        <span class="node-word">
          {node.members ? countStates(node.members.map(statusOf)) : node.states ? describeStates(node.states) : look.word}
          {!isFold && node.agent && ` · ${node.agent.replace(` · ${node.name}`, "")}`}
          {!isFold && node.since && <Age at={node.since} isRunning={look.tone === "run"} />}
        </span>
      </span>
      {isFold && <span class="node-count">×{node.members ? node.members.length : Object.values(node.states ?? {}).reduce((sum, n) => sum + n, 0)}</span>}
    </button>
  );
}

function Age({ at, isRunning }: { at: number; isRunning: boolean }) {
  return <time dateTime={new Date(at).toISOString()}>{isRunning ? duration(now.value - at) : ago(at, now.value)}</time>;
}

function countStates(states: string[]): string {
  const counts: Record<string, number> = {};
  for (const state of states) counts[state] = (counts[state] ?? 0) + 1;
  return describeStates(counts);
}

function describeStates(counts: Record<string, number>): string {
  return Object.entries(counts).sort((a, b) => b[1] - a[1]).slice(0, 2).map(([state, n]) => `${n} ${getLook(state).word}`).join(", ");
}

/** The edges as a table, also for screen readers. */
function EdgeTable({ graph }: { graph: Graph }) {
  const [isOpen, setOpen] = useState(false);
  const [shown, setShown] = useState(EDGES_SHOWN);
  const node = new Map(graph.nodes.map((each) => [each.id, each]));
  return (
    <details class="more" open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Edges as a table</summary>
      {isOpen && (
        <>
          <table class="plain-table">
            <thead>
              <tr>
                <th scope="col">Task</th>
                <th scope="col">Next task</th>
                <th scope="col">State of next task</th>
              </tr>
            </thead>
            <tbody>
              {graph.edges.slice(0, shown).map(([from, to]) => (
                <tr>
                  <td>{node.get(from)?.name ?? from}</td>
                  <td>{node.get(to)?.name ?? to}</td>
                  <td>{node.get(to) && <State status={statusOf(node.get(to)!)} isSmall />}</td>
                </tr>
              ))}
            </tbody>
          </table>
          {graph.edges.length > shown && (
            <button type="button" class="button tiny" onClick={() => setShown(shown + EDGES_SHOWN)}>
              Show more of {formatCount(graph.edges.length, "edge")}
            </button>
          )}
        </>
      )}
    </details>
  );
}
