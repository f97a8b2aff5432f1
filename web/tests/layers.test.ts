import { expect, test } from "vitest";
import { criticalPath, foldToFit, fold, layersOf, placeNodes, type Graph } from "../src/view/layers";

const graph = (edges: string[], ...more: string[]): Graph => {
  const pairs = edges.map((edge) => edge.split(">") as [string, string]);
  const ids = [...new Set([...pairs.flat(), ...more])];
  return { nodes: ids.map((id) => ({ id, name: id, status: "pending" })), edges: pairs };
};

test("a node is one layer after its deepest dependency", () => {
  const layer = layersOf(graph(["a>b", "b>c", "a>c", "c>d"]));

  expect([...layer]).toEqual([["a", 0], ["b", 1], ["c", 2], ["d", 3]]);
});

test("a cycle does not hang the layout", () => {
  expect(placeNodes(graph(["a>b", "b>a", "b>c"])).size).toBe(3);
});

test("no two nodes have the same position", () => {
  const edges = Array.from({ length: 300 }, (_, index) => `n${Math.floor(index / 3)}>n${index + 1}`);
  const places = [...placeNodes(graph(edges)).values()].map(({ x, y }) => `${x}:${y}`);

  expect(new Set(places).size).toBe(places.length);
});

test("sweeps remove crossings", () => {
  const placed = placeNodes(graph(["a>x", "b>y", "c>z", "a>z"].reverse()));
  const rows = ["a", "b", "c"].map((id) => placed.get(id)!.y);
  const after = ["x", "y", "z"].map((id) => placed.get(id)!.y);
  const order = (list: number[]) => list.map((_, index) => index).sort((one, two) => list[one]! - list[two]!);

  expect(order(rows).indexOf(1)).toBe(order(after).indexOf(1));
});

test("sixty siblings are drawn; more are folded into one node that can be opened", () => {
  const fan = (size: number) => graph([...Array.from({ length: size }, (_, index) => `start>work ${index}`), ...Array.from({ length: size }, (_, index) => `work ${index}>end`)]);

  expect(fold(fan(60), new Set()).nodes).toHaveLength(62);
  const folded = fold(fan(61), new Set());
  expect(folded.nodes.map((node) => node.members?.length ?? 1).sort()).toEqual([1, 1, 61]);
  expect(folded.edges).toEqual([["start", "fold:work 0"], ["fold:work 0", "end"]]);
  expect(fold(fan(61), new Set(["fold:work 0"])).nodes).toHaveLength(63);
});

test("ten thousand tasks are folded until they can be drawn", () => {
  const edges = Array.from({ length: 9_999 }, (_, index) => `n${Math.floor((index * 7919) % (index + 1))}>n${index + 1}`);
  const drawn = foldToFit(graph(edges), new Set());

  expect(drawn.nodes.length).toBeLessThanOrEqual(300);
  expect(placeNodes(drawn).size).toBe(drawn.nodes.length);
}, 60_000);

test("the critical path is the chain that takes longest", () => {
  const long: Record<string, number> = { a: 1, b: 5, c: 2, d: 1 };

  expect(criticalPath(graph(["a>b", "a>c", "b>d", "c>d"]), (id) => long[id]!)).toEqual(["a", "b", "d"]);
});
