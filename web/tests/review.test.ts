import { describe, expect, it } from "vitest";
import type { Comment } from "../src/data/shapes-review";
import { hunksOf } from "../src/view/diff";
import { highlightLines, mergeSpans, splitLines } from "../src/view/highlight";
import { loadHighlight } from "../src/view/highlighter";
import { describeSent, describeWeakening, keyOf, placeComments, splitPatch } from "../src/view/review";

const PATCH = `diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1,2 +1,2 @@
-one
+two
 same
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-diff --git a/x b/x
diff --git "a/\\303\\244.py" "b/\\303\\244.py"
--- "a/\\303\\244.py"
+++ "b/\\303\\244.py"
@@ -1 +1 @@
-a
+b
diff --git a/moved b/moved
old mode 100644
new mode 100755
`;
const comment = (more: Partial<Comment>): Comment => ({ id: "cm_1", task_id: "tk_1", path: "a.py", side: "new", line: 1, line_text: "two", text: "Why?", by: "human:ada", created_at: "", state: "open", ...more });

describe("a patch", () => {
  it("is split by file, whatever its lines look like", () => {
    const parts = splitPatch(PATCH);

    expect([...parts.keys()]).toEqual(["a.py", "gone.py", "ä.py", "moved"]);
    expect(hunksOf(parts.get("gone.py")!)[0]!.lines.map((line) => line.text)).toEqual(["diff --git a/x b/x"]);
  });
});

describe("comments", () => {
  const hunks = hunksOf(splitPatch(PATCH).get("a.py")!);

  it("stand at their line", () => {
    const { at, gone } = placeComments([comment({}), comment({ id: "cm_2", side: "old", line_text: "one" })], hunks);

    expect([...at.keys()]).toEqual([keyOf("new", 1), keyOf("old", 1)]);
    expect(gone).toEqual([]);
  });

  it("move with a line whose text is there once", () => {
    const { at } = placeComments([comment({ line: 9, line_text: "same" })], hunks);

    expect([...at.keys()]).toEqual([keyOf("new", 2)]);
  });

  it("are kept when their line is gone", () => {
    const { at, gone } = placeComments([comment({ line_text: "three" })], hunks);

    expect([at.size, gone.length]).toEqual([0, 1]);
  });
});

describe("syntax colour", () => {
  it("never changes the text", async () => {
    for (const [path, text] of [["a.py", 'def f(x):\n    """a\n    b"""\n    return f"{x} <b>"\n'], ["a.tsx", "const a = <b title='x'>{y}</b>; // z"], ["a.rs", "fn a<'b>() -> &'b str { \"</script>\" }"]] as const) {
      const highlight = (await loadHighlight(path))!;

      const tokens = highlight(text);

      expect(tokens.map((each) => each.text).join("")).toBe(text);
      expect(tokens.some((each) => each.kind !== "")).toBe(true);
    }
  });

  it("is nothing for languages that are not known", async () => {
    expect(await loadHighlight("notes.xyz")).toBe(null);
  });

  it("knows a string of several lines, and is cut at marked words", () => {
    const lines = hunksOf('@@ -1,2 +1,2 @@\n "a\n+b" c\n')[0]!.lines;
    const string = (text: string) => [{ text: text.slice(0, 5), kind: "string" }, { text: text.slice(5), kind: "" }];

    const found = highlightLines(lines, string);

    expect(found.get(lines[1]!)).toEqual([{ text: 'b"', kind: "string" }, { text: " c", kind: "" }]);
    expect(mergeSpans(found.get(lines[1]!)!, [{ text: "b", isChanged: true }, { text: '" c', isChanged: false }])).toEqual([
      { text: "b", kind: "string", isChanged: true },
      { text: '"', kind: "string", isChanged: false },
      { text: " c", kind: "", isChanged: false },
    ]);
    expect(splitLines([{ text: "a\n\nb", kind: "x" }]).map((line) => line.length)).toEqual([1, 0, 1]);
  });
});

describe("words", () => {
  it("say what weakens tests, and what became of words", () => {
    expect(describeWeakening({ kind: "assertions_removed", path: "a", count: 3 })).toBe("3 assertions fewer");
    expect(describeSent("Export", { task_id: "tk_1", comments: [], reopened: true, reaches: "next_agent", next: "deepwork run wf_1" })).toContain("deepwork run wf_1");
  });
});
