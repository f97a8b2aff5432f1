import { expect, test } from "vitest";
import { parseRunPath } from "../src/view/addresses";

test("a path may name a tab of a run", () => {
  expect(parseRunPath("tw_1")).toEqual({ id: "tw_1", tab: null });
  expect(parseRunPath("tw_1/graph")).toEqual({ id: "tw_1", tab: "graph" });
  expect(parseRunPath("tw_1/graph/")).toEqual({ id: "tw_1", tab: "graph" });
});

test("other paths below a run have no page", () => {
  expect(parseRunPath("tw_1/events")).toBeNull();
  expect(parseRunPath("tw_1/graph/more")).toBeNull();
});
