/** The dependency graph of a run. Tasks that have not started are dashed; large fan-outs are folded. */

import { useMemo, useState } from "preact/hooks";
import { ofRun, useResource } from "../data/resource";
import type { GraphAnswer, RunDetails } from "../data/shapes";
import type { TaskTable } from "../data/tasks";
import { go, query, replace, withQuery } from "../router";
import { Empty, Loaded, formatCount } from "../ui/parts";
import { getLook, Shape, State } from "../ui/state";
import { criticalPath, foldToFit, placeNodes, unfold, type Graph, type Node } from "../view/layers";

const WIDE = 190;
const HIGH = 40;
const GAP_X = 64;
const GAP_Y = 14;
const EDGES_SHOWN = 200;

export function GraphTab({ run, table }: { run: RunDetails; table: TaskTable }) {
  const graph = useResource<GraphAnswer>(`/runs/${encodeURIComponent(run.id)}/graph`, (event) => ofRun(run.id)(event) && /created|removed|^phase:|^plan:|^session:|released/.test(event.type));
  return (
    <Loaded of={graph}>
      {(data) => (data.nodes.length === 0 ? <Empty title="Nothing to draw yet" /> : <Unfolded answer={data} table={table} />)}
    </Loaded>
  );
}

function Unfolded({ answer, table }: { answer: GraphAnswer; table: TaskTable }) {
  const graph = useMemo(() => unfold(answer, (id) => table.rows[table.at.get(id) ?? -1]?.name), [answer, table.at]);
  return <Drawing answer={graph} table={table} />;
}

function Drawing({ answer, table }: { answer: Graph; table: TaskTable }) {
  const opened = useMemo(() => new Set((query.value.get("open") ?? "").split(",").filter(Boolean)), [query.value.get("open")]);
  const isCritical = query.value.get("critical") !== "off";
  const chosen = query.value.get("task");
  const [scale, setScale] = useState(1);
  const whole: Graph = useMemo(
    () => ({
      nodes: answer.nodes.map((node) => {
        const row = table.rows[table.at.get(node.id) ?? -1];
        return row ? { ...node, status: row.status, state: row.state } : node;
      }),
      edges: answer.edges,
    }),
    [answer, table.rows],
  );
  // The layout depends on the nodes and on what is folded, not on any status.
  const shape = useMemo(() => foldToFit({ nodes: answer.nodes, edges: answer.edges }, opened), [answer, opened]);
  const placed = useMemo(() => placeNodes(shape), [shape]);
  const now = new Map(whole.nodes.map((node) => [node.id, node]));
  const nodes: Node[] = shape.nodes.map((node) => (node.members ? { ...node, members: node.members.map((member) => now.get(member.id) ?? member) } : (now.get(node.id) ?? node)));
  const path = useMemo(() => {
    if (!isCritical) return new Set<string>();
    const took = (id: string) => {
      const row = table.rows[table.at.get(id) ?? -1];
      return row && row.started !== null ? Math.max(1, (row.ended ?? Date.now()) - row.started) : 1;
    };
    const ids = criticalPath(shape, (id) => {
      const members = shape.nodes.find((node) => node.id === id)?.members;
      return members ? Math.max(...members.map((member) => took(member.id))) : took(id);
    });
    return new Set(ids);
  }, [shape, isCritical, table.rows]);

  const columns = Math.max(...[...placed.values()].map((at) => at.x)) + 1;
  const lines = Math.max(...[...placed.values()].map((at) => at.y)) + 1;
  const x = (id: string) => placed.get(id)!.x * (WIDE + GAP_X) + 12;
  const y = (id: string) => placed.get(id)!.y * (HIGH + GAP_Y) + 12;
  const width = columns * (WIDE + GAP_X) - GAP_X + 24;
  const height = lines * (HIGH + GAP_Y) - GAP_Y + 24;
  const pick = (node: Node) => {
    if (node.kind === "phase" || node.kind === "level") return;
    if (node.members) replace(withQuery({ open: [...opened, node.id].join(",") }));
    else go(withQuery({ task: node.id }));
  };
  return (
    <>
      <div class="tools" role="toolbar" aria-label="Graph">
        <button type="button" class="button" aria-pressed={isCritical} onClick={() => go(withQuery({ critical: isCritical ? "off" : null }))}>
          Critical path
        </button>
        {opened.size > 0 && (
          <button type="button" class="button" onClick={() => replace(withQuery({ open: null }))}>
            Collapse all
          </button>
        )}
        <span class="tools-group" role="group" aria-label="Zoom">
          <button type="button" class="button" aria-label="Zoom out" onClick={() => setScale(Math.max(0.3, scale / 1.25))}>
            −
          </button>
          <button type="button" class="button" onClick={() => setScale(1)}>
            {Math.round(scale * 100)} %
          </button>
          <button type="button" class="button" aria-label="Zoom in" onClick={() => setScale(Math.min(2, scale * 1.25))}>
            +
          </button>
        </span>
        <span class="faint numbers">
          {formatCount(answer.nodes.length, "node")}
          {shape.nodes.length < answer.nodes.length && `, drawn as ${shape.nodes.length}`}, {formatCount(answer.edges.length, "edge")}
        </span>
      </div>
      <div class="graph" tabIndex={0} role="region" aria-label="Graph of tasks">
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
                  <GraphBox node={node} isChosen={node.id === chosen} isCritical={path.has(node.id)} onPick={() => pick(node)} />
                </li>
              ))}
            </ul>
          </div>
        </div>
      </div>
      <EdgeTable graph={whole} />
    </>
  );
}

function statusOf(node: Node): string {
  return node.state ?? node.status;
}

function GraphBox({ node, isChosen, isCritical, onPick }: { node: Node; isChosen: boolean; isCritical: boolean; onPick: () => void }) {
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
    <button type="button" class={`node tone-${look.tone}${isWaiting ? " is-waiting" : ""}${isChosen ? " is-chosen" : ""}${isCritical ? " is-critical" : ""}${node.members ? " is-folded" : ""}`} data-item aria-pressed={node.members ? undefined : isChosen} onClick={onPick} title={node.name}>
      <Shape name={look.shape} />
      <span class="node-text">
        <span class="node-name">{node.name}</span>
        <span class="node-word">{node.members ? countStates(node.members) : look.word}</span>
      </span>
      {node.members && <span class="node-count">×{node.members.length}</span>}
    </button>
  );
}

function countStates(members: Node[]): string {
  const counts = new Map<string, number>();
  for (const member of members) {
    const word = getLook(statusOf(member)).word;
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1]).slice(0, 2).map(([word, n]) => `${n} ${word}`).join(", ");
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
