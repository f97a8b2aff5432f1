import { expect, test } from "vitest";
import type { ChangedFile } from "../src/data/shapes";
import { pathRows } from "../src/view/paths";

const file = (path: string): ChangedFile => ({ path, status: "modified", tasks: [] });
const lines = (rows: { name: string; level: number }[]) => rows.map((row) => `${" ".repeat(row.level - 1)}${row.name}`);

test("folders come first, and a folder with a single subfolder is merged with it", () => {
  expect(lines(pathRows([file("z.md"), file("src/deep/a.py"), file("src/deep/b/c.py")], new Set()))).toEqual(["src/deep", " b", "  c.py", " a.py", "z.md"]);
});

test("a folded folder hides its files and still counts them", () => {
  const [row] = pathRows([file("src/a.py"), file("src/b.py")], new Set(["src/"]));

  expect(row).toMatchObject({ kind: "folder", isOpen: false, files: 2 });
});
