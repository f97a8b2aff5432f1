import { expect, test } from "vitest";
import { reveal } from "../src/view/reveal";

test("what is visible stays as it is", () => {
  const text = "def café():\n\treturn '日本語 🎉' # Ω\n";
  expect(reveal(text)).toBe(text);
});

test("characters that hide or reorder text become visible", () => {
  expect(reveal("a\u202eb\u200bc\ufeffd\u0007e\r")).toBe("a⟨U+202E⟩b⟨U+200B⟩c⟨U+FEFF⟩d⟨U+0007⟩e⟨U+000D⟩");
  expect(reveal("tag\u{e0041}")).toBe("tag⟨U+E0041⟩");
});
