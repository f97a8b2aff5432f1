import { describe, expect, it } from "vitest";
import { isFileList, orderFields, parseFile, splitDiff } from "../src/view/shown";

describe("what a person is to approve", () => {
  const file = { after: "100644 b", before: "100644 a", diff: "-a\n+b", path: "tests/test_tax.py" };

  it("shows the path of a file as heading and its diff first", () => {
    expect(parseFile(file)).toEqual({ path: "tests/test_tax.py", diff: "-a\n+b", more: [["after", "100644 b"], ["before", "100644 a"]] });
  });

  it("keeps a diff that is not a text among the other fields", () => {
    expect(parseFile({ path: "a", diff: 3 })).toEqual({ path: "a", diff: null, more: [["diff", 3]] });
  });

  it("does not take a path alone, or anything else, for a file", () => {
    for (const value of [{ path: "a" }, { path: 1, diff: "" }, ["a"], "a", null]) expect(parseFile(value)).toBeNull();
    expect(isFileList([])).toBe(false);
    expect(isFileList([file, { name: "b" }])).toBe(false);
  });

  it("lists files with diffs before everything else, and leaves nothing out", () => {
    const shown = { checks: { tests: "d" }, files: [{ path: "a", change: "M" }], paths: [file] };
    expect(orderFields(shown).map(([name]) => name)).toEqual(["paths", "checks", "files"]);
  });

  it("colours lines of a diff, but not its header", () => {
    const kinds = (text: string) => splitDiff(text).map((line) => line.kind);
    expect(kinds("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-x\n+y\n z\n+++ w")).toEqual(["same", "same", "same", "removed", "added", "same", "added"]);
    expect(kinds("-x\n+y")).toEqual(["removed", "added"]);
  });
});
