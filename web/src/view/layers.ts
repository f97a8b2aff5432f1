/** Layered graph layout: folds fan-outs, reduces crossings, finds the critical path. */

import type { GraphNode } from "../data/shapes";

export interface Node extends GraphNode {
  /** The nodes of a folded fan-out. */
  members?: GraphNode[];
}

export interface Graph {
  nodes: Node[];
  edges: [string, string][];
}

export interface Placed {
  x: number;
  y: number;
  layer: number;
}

export const FOLD_OVER = 60;
export const MOST_DRAWN = 300;

/** Folds more than `over` nodes with the same predecessors, successors and group into one node "×n". */
export function fold(graph: Graph, opened: ReadonlySet<string>, over = FOLD_OVER): Graph {
  const before = neighbours(graph, 1);
  const after = neighbours(graph, 0);
  const groups = new Map<string, Node[]>();
  for (const node of graph.nodes) {
    const key = `${(before.get(node.id) ?? []).slice().sort().join(",")}|${(after.get(node.id) ?? []).slice().sort().join(",")}|${node.group ?? ""}`;
    const list = groups.get(key);
    if (list) list.push(node);
    else groups.set(key, [node]);
  }
  const foldedInto = new Map<string, string>();
  const nodes: Node[] = [];
  for (const list of groups.values()) {
    const first = list[0]!;
    const id = `fold:${first.id}`;
    if (list.length > over && !opened.has(id)) {
      nodes.push({ id, name: commonName(list), status: foldedStatus(list), level: first.level, members: list });
      for (const node of list) foldedInto.set(node.id, id);
    } else nodes.push(...list);
  }
  if (foldedInto.size === 0) return graph;
  const seen = new Set<string>();
  const edges: [string, string][] = [];
  for (const [from, to] of graph.edges) {
    const edge: [string, string] = [foldedInto.get(from) ?? from, foldedInto.get(to) ?? to];
    const key = edge.join(">");
    if (edge[0] === edge[1] || seen.has(key)) continue;
    seen.add(key);
    edges.push(edge);
  }
  return { nodes, edges };
}

/** Folds siblings, then whole layers, until at most `most` nodes remain. */
export function foldToFit(graph: Graph, opened: ReadonlySet<string>, most = MOST_DRAWN): Graph {
  let folded = fold(graph, opened);
  for (const over of [20, 8, 3, 1]) {
    if (folded.nodes.length <= most) return folded;
    folded = fold(graph, opened, over);
  }
  if (folded.nodes.length <= most) return folded;
  const layer = layersOf(graph);
  const byLayer = new Map<number, Node[]>();
  for (const node of graph.nodes) {
    const at = layer.get(node.id) ?? 0;
    const list = byLayer.get(at);
    if (list) list.push(node);
    else byLayer.set(at, [node]);
  }
  const foldedInto = new Map<string, string>();
  const nodes: Node[] = [];
  const room = Math.max(1, Math.floor(most / Math.max(1, byLayer.size)));
  for (const [at, list] of byLayer) {
    const id = `fold:layer:${at}`;
    if (list.length > room && !opened.has(id)) {
      nodes.push({ id, name: `layer ${at + 1}`, status: foldedStatus(list), members: list });
      for (const node of list) foldedInto.set(node.id, id);
    } else nodes.push(...list);
  }
  const seen = new Set<string>();
  const edges = graph.edges
    .map(([from, to]): [string, string] => [foldedInto.get(from) ?? from, foldedInto.get(to) ?? to])
    .filter(([from, to]) => {
      const key = `${from}>${to}`;
      if (from === to || seen.has(key)) return false;
      seen.add(key);
      return true;
    });
  return { nodes, edges };
}

/**
 * The layer of each node: one after its deepest dependency, and not before its own level.
 * Nodes in a cycle keep the layer found so far.
 */
export function layersOf(graph: Graph): Map<string, number> {
  const ids = new Set(graph.nodes.map((node) => node.id));
  const waits = new Map<string, number>();
  const after = new Map<string, string[]>();
  for (const id of ids) waits.set(id, 0);
  for (const [from, to] of graph.edges) {
    if (!ids.has(from) || !ids.has(to)) continue;
    waits.set(to, waits.get(to)! + 1);
    const list = after.get(from);
    if (list) list.push(to);
    else after.set(from, [to]);
  }
  const layer = new Map(graph.nodes.map((node) => [node.id, node.level ?? 0]));
  const free = graph.nodes.filter((node) => waits.get(node.id) === 0).map((node) => node.id);
  for (let at = 0; at < free.length; at++) {
    const id = free[at]!;
    for (const next of after.get(id) ?? []) {
      layer.set(next, Math.max(layer.get(next) ?? 0, layer.get(id)! + 1));
      waits.set(next, waits.get(next)! - 1);
      if (waits.get(next) === 0) free.push(next);
    }
  }
  return layer;
}

const SWEEPS = 4;

/** Grid positions: x is the layer, y the row within it. Several sweeps move neighbours close to each other. */
export function placeNodes(graph: Graph): Map<string, Placed> {
  const layer = layersOf(graph);
  const layers: string[][] = [];
  for (const node of graph.nodes) (layers[layer.get(node.id)!] ??= []).push(node.id);
  for (let at = 0; at < layers.length; at++) layers[at] ??= [];
  const before = neighbours(graph, 1);
  const after = neighbours(graph, 0);
  const row = new Map<string, number>();
  const number = (ids: string[]) => ids.forEach((id, index) => row.set(id, index - (ids.length - 1) / 2));
  layers.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    const order = down ? layers : [...layers].reverse();
    for (const ids of order) {
      const centre = new Map(ids.map((id) => [id, barycentre((down ? before : after).get(id), row)]));
      ids.sort((a, b) => (centre.get(a) ?? row.get(a)!) - (centre.get(b) ?? row.get(b)!) || row.get(a)! - row.get(b)!);
      number(ids);
    }
  }
  const placed = new Map<string, Placed>();
  const deepest = Math.max(0, ...layers.map((ids) => ids.length));
  layers.forEach((ids, x) => ids.forEach((id) => placed.set(id, { x, y: row.get(id)! + (deepest - 1) / 2, layer: x })));
  return placed;
}

function barycentre(ids: string[] | undefined, row: Map<string, number>): number | null {
  if (!ids || ids.length === 0) return null;
  return ids.reduce((sum, id) => sum + (row.get(id) ?? 0), 0) / ids.length;
}

/** The chain of nodes with the greatest total weight. */
export function criticalPath(graph: Graph, weight: (id: string) => number): string[] {
  const layer = layersOf(graph);
  const order = [...graph.nodes].sort((a, b) => layer.get(a.id)! - layer.get(b.id)!);
  const before = neighbours(graph, 1);
  const sum = new Map<string, number>();
  const via = new Map<string, string>();
  for (const node of order) {
    let most = 0;
    for (const from of before.get(node.id) ?? []) {
      if (layer.get(from)! < layer.get(node.id)! && (sum.get(from) ?? 0) > most) {
        most = sum.get(from)!;
        via.set(node.id, from);
      }
    }
    sum.set(node.id, most + weight(node.id));
  }
  let end: string | undefined = order.reduce<string | undefined>((best, node) => (best === undefined || sum.get(node.id)! > sum.get(best)! ? node.id : best), undefined);
  const path: string[] = [];
  while (end !== undefined) {
    path.unshift(end);
    end = via.get(end);
  }
  return path;
}

/** The successors (0) or predecessors (1) of each node. */
function neighbours(graph: Graph, side: 0 | 1): Map<string, string[]> {
  const found = new Map<string, string[]>();
  for (const edge of graph.edges) {
    const list = found.get(edge[side]);
    if (list) list.push(edge[side === 0 ? 1 : 0]);
    else found.set(edge[side], [edge[side === 0 ? 1 : 0]]);
  }
  return found;
}

function commonName(nodes: Node[]): string {
  const group = nodes[0]!.group;
  if (group) return group;
  let common = nodes[0]!.name;
  for (const node of nodes) while (!node.name.startsWith(common)) common = common.slice(0, -1);
  common = common.replace(/[\s\d_\-–·:#.]+$/, "");
  return common.length > 2 ? `${common} …` : "similar tasks";
}

function foldedStatus(nodes: Node[]): string {
  const states = nodes.map((node) => node.state ?? node.status);
  const first = ["failed", "needs_you", "unattended", "running", "parked", "ready"].find((state) => states.includes(state));
  return first ?? (states.every((state) => ["done", "landed"].includes(state)) ? "done" : "waiting");
}
