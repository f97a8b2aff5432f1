import { expect, test } from "vitest";
import { share } from "../src/data/share";

test("an equal value is the old one", () => {
  const old = { id: "a", parts: [{ n: 1 }, { n: 2 }] };
  expect(share(old, structuredClone(old))).toBe(old);
});

test("only what changed is new", () => {
  const old = [{ id: "a", state: "ready" }, { id: "b", state: "ready" }];
  const next = share(old, [{ id: "a", state: "ready" }, { id: "b", state: "done" }]);
  expect(next).toEqual([{ id: "a", state: "ready" }, { id: "b", state: "done" }]);
  expect(next[0]).toBe(old[0]);
  expect(next[1]).not.toBe(old[1]);
});

test("a thing that moved in its list is recognized by its id", () => {
  const old = [{ id: "a" }, { id: "b" }];
  const next = share(old, [{ id: "b" }, { id: "a" }]);
  expect(next).not.toBe(old);
  expect(next[0]).toBe(old[1]);
});

test("a field that is gone does not stay", () => {
  expect(share({ id: "a", because: "quiet" }, { id: "a" })).toEqual({ id: "a" });
  expect(share({ id: "a" }, { id: "a", because: undefined })).toHaveProperty("because");
});
