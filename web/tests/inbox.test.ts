import { expect, test } from "vitest";
import { parseColors } from "../src/view/ansi";
import { describeBlocked, findNext, parseAmount, snoozeTimes } from "../src/view/inbox";
import { splitPatch } from "../src/view/patch";

test("colors become parts, and other sequences are no text", () => {
  expect(parseColors("a\x1b[1;31mred\x1b[0m b")).toEqual([
    { text: "a", look: "" },
    { text: "red", look: "ansi-1 ansi-bold" },
    { text: " b", look: "" },
  ]);
  expect(parseColors("\x1b[38;2;1;2;3mx\x1b[39m\x1b[92my")).toEqual([{ text: "x", look: "" }, { text: "y", look: "ansi-2" }]);
});

test("the next item is the next that is open, else the one before", () => {
  const isOpen = (id: string) => id !== "b";
  expect(findNext(["a", "b", "c"], "a", isOpen)).toBe("c");
  expect(findNext(["a", "b", "c"], "c", isOpen)).toBe("a");
  expect(findNext(["b"], "b", isOpen)).toBe(null);
});

test("an amount is a positive number of dollars", () => {
  expect(["20", "$20", " 12,50 ", "0", "-1", "1e3", "twenty"].map(parseAmount)).toEqual([20, 20, 12.5, null, null, null, null]);
});

test("what an item blocks is said in words", () => {
  expect(describeBlocked({ agents: 1, tasks: 5 })).toBe("blocks 1 agent, 5 tasks");
  expect(describeBlocked({ agents: 0, tasks: null })).toBe("");
});

test("one snoozes into the future only", () => {
  const now = new Date(2026, 10, 16, 12);
  expect(snoozeTimes(now).every(({ value }) => Date.parse(value) > now.getTime())).toBe(true);
});

test("a patch is split into its files, with their lines counted", () => {
  const patch = "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1,2 @@\n-a\n+b\n+c\ndiff --git a/y b/y\n@@ -0,0 +1 @@\n+d\n";
  expect(splitPatch(patch).map(({ path, added, removed }) => [path, added, removed])).toEqual([["x.py", 2, 1], ["y", 1, 0]]);
});
