/** Parses basic Markdown into a tree of text; it never produces HTML. */

export type Inline = { kind: "text" | "code" | "strong"; text: string } | { kind: "link"; text: string; href: string };
export type Block =
  | { kind: "paragraph"; lines: Inline[][] }
  | { kind: "heading"; content: Inline[] }
  | { kind: "list"; items: Inline[][]; isNumbered: boolean }
  | { kind: "code"; text: string };

export function blocksOf(source: string): Block[] {
  const blocks: Block[] = [];
  const lines = source.replace(/\r\n?/g, "\n").split("\n");
  for (let i = 0; i < lines.length; ) {
    const line = lines[i]!;
    if (/^\s*```/.test(line)) {
      const end = lines.findIndex((each, at) => at > i && /^\s*```\s*$/.test(each));
      const stop = end === -1 ? lines.length : end;
      blocks.push({ kind: "code", text: lines.slice(i + 1, stop).join("\n") });
      i = stop + 1;
    } else if (line.trim() === "") i++;
    else if (/^#{1,6}\s/.test(line)) {
      blocks.push({ kind: "heading", content: inline(line.replace(/^#+\s+/, "")) });
      i++;
    } else if (ITEM.test(line)) {
      const items: string[] = [];
      const isNumbered = /^\s*\d/.test(line);
      for (; i < lines.length && (ITEM.test(lines[i]!) || /^\s{2,}\S/.test(lines[i]!)); i++) {
        if (ITEM.test(lines[i]!)) items.push(lines[i]!.replace(ITEM, ""));
        else items[items.length - 1] += ` ${lines[i]!.trim()}`;
      }
      blocks.push({ kind: "list", items: items.map(inline), isNumbered });
    } else {
      const start = i;
      while (i < lines.length && lines[i]!.trim() !== "" && !ITEM.test(lines[i]!) && !/^(\s*```|#{1,6}\s)/.test(lines[i]!)) i++;
      blocks.push({ kind: "paragraph", lines: lines.slice(start, i).map(inline) });
    }
  }
  return blocks;
}

const ITEM = /^\s*(?:[-*•]|\d{1,3}[.)])\s+/;
const INLINE = /`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]{1,300})\]\((https?:\/\/[^\s)]+)\)|(https?:\/\/[^\s<>"'`)\]]+)/g;

export function inline(text: string): Inline[] {
  const found: Inline[] = [];
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > at) found.push({ kind: "text", text: text.slice(at, match.index) });
    if (match[1] !== undefined) found.push({ kind: "code", text: match[1] });
    else if (match[2] !== undefined) found.push({ kind: "strong", text: match[2] });
    else {
      const href = safe(match[4] ?? match[5]!);
      const label = match[3] ?? match[5]!;
      found.push(href ? { kind: "link", text: label, href } : { kind: "text", text: match[0] });
    }
    at = match.index + match[0].length;
  }
  if (at < text.length) found.push({ kind: "text", text: text.slice(at) });
  return found;
}

/** Returns the URL if it is http or https, otherwise null. */
function safe(address: string): string | null {
  try {
    const url = new URL(address);
    return url.protocol === "https:" || url.protocol === "http:" ? url.href : null;
  } catch {
    return null;
  }
}
