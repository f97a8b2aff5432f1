/** Syntax colour by highlight.js, loaded with the first file of a language. What it finds becomes text nodes, never HTML. */

import type { Token } from "./highlight";

const LANGUAGES: Record<string, [name: string, load: () => Promise<{ default: unknown }>]> = {
  py: ["python", () => import("highlight.js/lib/languages/python")],
  ts: ["typescript", () => import("highlight.js/lib/languages/typescript")],
  go: ["go", () => import("highlight.js/lib/languages/go")],
  rs: ["rust", () => import("highlight.js/lib/languages/rust")],
  java: ["java", () => import("highlight.js/lib/languages/java")],
  json: ["json", () => import("highlight.js/lib/languages/json")],
  yaml: ["yaml", () => import("highlight.js/lib/languages/yaml")],
  sh: ["bash", () => import("highlight.js/lib/languages/bash")],
};
const SAME: Record<string, string> = { pyi: "py", js: "ts", jsx: "ts", mjs: "ts", cjs: "ts", tsx: "ts", mts: "ts", cts: "ts", kt: "java", yml: "yaml", bash: "sh", jsonc: "json" };
/** A hunk longer than this stays plain: colour must not stall the page. */
const MOST = 60_000;

/** Collects what highlight.js emits as a flat list; it calls these methods. */
class Tokens {
  readonly found: Token[] = [];
  private readonly kinds: string[] = [];

  addText(text: string): void {
    if (text) this.found.push({ text, kind: this.kinds[this.kinds.length - 1] ?? "" });
  }
  startScope(kind: string): void {
    this.kinds.push(kind);
  }
  endScope(): void {
    this.kinds.pop();
  }
  openNode(kind: string): void {
    this.startScope(kind);
  }
  closeNode(): void {
    this.endScope();
  }
  /** The tokens of another language inside this one. */
  __addSublanguage(inner: Tokens): void {
    this.found.push(...inner.found);
  }
  finalize(): void {}
  toHTML(): string {
    return "";
  }
}

/** Loads what colours a file by its name; null if it stays plain. */
export async function loadHighlight(path: string): Promise<((text: string) => Token[]) | null> {
  const ending = path.slice(path.lastIndexOf(".") + 1).toLowerCase();
  const language = LANGUAGES[SAME[ending] ?? ending];
  if (!language) return null;
  const [name, load] = language;
  const [{ default: core }, { default: grammar }] = await Promise.all([import("highlight.js/lib/core"), load()]);
  core.configure({ __emitter: Tokens } as never);
  if (!core.getLanguage(name)) core.registerLanguage(name, grammar as never);
  return (text) => {
    if (text.length > MOST) return [{ text, kind: "" }];
    const found = (core.highlight(text, { language: name, ignoreIllegals: true }) as unknown as { _emitter: Tokens })._emitter.found;
    // It must be exactly the text: a reviewer decides by what is shown.
    return found.map((each) => each.text).join("") === text ? found : [{ text, kind: "" }];
  };
}
