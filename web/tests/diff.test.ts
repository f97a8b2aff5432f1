import { expect, test } from "vitest";
import { getFoldReason, hunksOf, pairs, refineHunk, words } from "../src/view/diff";

const DIFF = `diff --git a/x.py b/x.py
--- a/x.py
+++ b/x.py
@@ -1,4 +1,4 @@ def f():
 same
-total = 0.0
+total = Decimal("0")
 end
\\ No newline at end of file
@@ -10 +10,2 @@
 a
+b
`;

test("a diff is parsed into hunks with the line numbers of both sides", () => {
  const [first, second] = hunksOf(DIFF);

  expect(first!.heading).toBe("def f():");
  expect(first!.lines.map((line) => [line.kind, line.old, line.new])).toEqual([["same", 1, 1], ["removed", 2, null], ["added", null, 2], ["same", 3, 3], ["note", null, null]]);
  expect(second!.lines.map((line) => line.text)).toEqual(["a", "b"]);
});

test("content lines that look like file headers are content", () => {
  expect(hunksOf("@@ -1 +1 @@\n--- a\n+++ b\n")[0]!.lines.map((line) => line.text)).toEqual(["-- a", "++ b"]);
});

test("a removed line is paired with the line that replaced it", () => {
  expect(pairs(hunksOf(DIFF)[0]!).map(({ left, right }) => [left?.text, right?.text])[1]).toEqual(["total = 0.0", 'total = Decimal("0")']);
});

test("changed words within a line are marked", () => {
  const [before, after] = words("return total", "return total.quantize(CENT)");

  expect(before).toEqual([{ text: "return total", isChanged: false }]);
  expect(after!.filter((part) => part.isChanged).map((part) => part.text).join("")).toBe(".quantize(CENT)");
});

test("two lines with nothing in common are not split into parts", () => {
  expect(words("alpha beta", "gamma delta epsilon")).toEqual([null, null]);
});

test("an indented line is unchanged if whitespace is ignored", () => {
  const hunk = refineHunk(hunksOf("@@ -1 +1 @@\n-a = 1\n+    a = 1\n")[0]!, true);

  expect(hunk.lines.map((line) => line.kind)).toEqual(["same"]);
});

test("large, binary and generated files are folded at first", () => {
  expect(getFoldReason({ path: "src/a.py", added: 3, removed: 1 })).toBeNull();
  expect(getFoldReason({ path: "web/package-lock.json", added: 3 })).toBe("Generated file");
  expect(getFoldReason({ path: "a.png", is_binary: true })).toBe("Binary file");
  expect(getFoldReason({ path: "src/a.py", added: 900 })).not.toBeNull();
});
