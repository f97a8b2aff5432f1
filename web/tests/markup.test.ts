import { expect, test } from "vitest";
import { blocksOf, inline } from "../src/view/markup";

test("lists, code and emphasis are parsed", () => {
  const blocks = blocksOf("A **word** and `code`\n\n- one\n- two\n\n```py\nx = 1\n```\n1. first");

  expect(blocks.map((block) => block.kind)).toEqual(["paragraph", "list", "code", "list"]);
});

test("only http and https URLs become links", () => {
  const kinds = (text: string) => inline(text).map((part) => part.kind);

  expect(kinds("see https://example.org/x")).toEqual(["text", "link"]);
  expect(kinds("[x](https://example.org)")).toEqual(["link"]);
  for (const trick of ["[x](javascript:alert(1))", "[x](data:text/html,1)", "<a href='javascript:alert(1)'>", "javascript:alert(1)"]) expect(kinds(trick)).not.toContain("link");
});

test("markup of other languages stays text", () => {
  expect(blocksOf("<img src=x onerror=alert(1)>")).toEqual([{ kind: "paragraph", lines: [[{ kind: "text", text: "<img src=x onerror=alert(1)>" }]] }]);
});

test("an unclosed code fence extends to the end", () => {
  expect(blocksOf("```\na\nb")).toEqual([{ kind: "code", text: "a\nb" }]);
});
