/** Joins syntax colour and marked words into the spans of a line. */

import type { DiffLine, Part } from "./diff";

/** A piece of text with the kind of code that it is; "" for plain text. */
export interface Token {
  text: string;
  kind: string;
}

export interface Span extends Token {
  isChanged: boolean;
}

/** Highlights a text; the tokens together are exactly that text. */
export type Highlight = (text: string) => Token[];

/** Splits tokens at line ends: the tokens of each line. */
export function splitLines(tokens: readonly Token[]): Token[][] {
  const lines: Token[][] = [[]];
  for (const { text, kind } of tokens) {
    text.split("\n").forEach((part, index) => {
      if (index > 0) lines.push([]);
      if (part) lines[lines.length - 1]!.push({ text: part, kind });
    });
  }
  return lines;
}

/** Highlights one side of a hunk at once, so that a comment or a string of several lines is known as such. */
export function highlightLines(lines: readonly DiffLine[], highlight: Highlight): Map<DiffLine, Token[]> {
  const found = new Map<DiffLine, Token[]>();
  for (const side of ["removed", "added"] as const) {
    const own = lines.filter((line) => line.kind === "same" || line.kind === side);
    const split = splitLines(highlight(own.map((line) => line.text).join("\n")));
    own.forEach((line, index) => found.set(line, split[index] ?? [{ text: line.text, kind: "" }]));
  }
  return found;
}

/** Cuts tokens where marked words begin and end. */
export function mergeSpans(tokens: readonly Token[], parts: readonly Part[] | undefined): Span[] {
  if (!parts) return tokens.map((token) => ({ ...token, isChanged: false }));
  const spans: Span[] = [];
  let part = 0;
  let used = 0;
  for (const token of tokens) {
    let rest = token.text;
    while (rest) {
      const current = parts[part];
      const left = current ? current.text.length - used : rest.length;
      const text = rest.slice(0, left);
      if (text) spans.push({ text, kind: token.kind, isChanged: current?.isChanged ?? false });
      rest = rest.slice(text.length);
      used += text.length;
      if (current && used >= current.text.length) {
        part += 1;
        used = 0;
      }
      if (!text && !current) break;
    }
  }
  return spans;
}
