// Prints the gzipped size of the built files; fails the build if the first page, or everything, exceeds its budget.
import { readFileSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const FIRST = 80 * 1024;
const ALL = 180 * 1024;

/** The module of the page at `/`. */
function findFirstPage() {
  const routes = readFileSync(new URL("../src/routes.ts", import.meta.url), "utf8");
  const found = /path: "\/",.*import\("\.\/(pages\/[\w-]+)"\)/.exec(routes);
  if (!found) throw new Error("src/routes.ts does not say which page is at /");
  return `/src/${found[1]}.tsx`;
}

/** The files that a browser loads for the first page: what chunks import statically, and their styles. */
function listFirst(bundle) {
  const page = findFirstPage();
  const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
  const waiting = chunks.filter((chunk) => chunk.isEntry || chunk.facadeModuleId?.endsWith(page));
  if (!waiting.some((chunk) => !chunk.isEntry)) throw new Error(`${page} has no chunk of its own: something imports it statically`);
  const files = new Set(["index.html"]);
  while (waiting.length) {
    const chunk = waiting.pop();
    if (files.has(chunk.fileName)) continue;
    files.add(chunk.fileName);
    for (const style of chunk.viteMetadata?.importedCss ?? []) files.add(style);
    waiting.push(...chunk.imports.map((name) => bundle[name]).filter(Boolean));
  }
  return files;
}

export function budget() {
  return {
    name: "budget",
    apply: "build",
    writeBundle(options, bundle) {
      const first = listFirst(bundle);
      const names = readdirSync(options.dir, { recursive: true }).filter((name) => statSync(join(options.dir, name)).isFile()).sort();
      const total = { first: 0, all: 0 };
      for (const name of names) {
        const bytes = readFileSync(join(options.dir, name));
        const packed = gzipSync(bytes, { level: 9 }).length;
        const isFirst = first.has(name) || name.startsWith("assets/theme-");
        total.all += packed;
        if (isFirst) total.first += packed;
        console.log(`${isFirst ? "*" : " "} ${name.padEnd(40)} ${String(bytes.length).padStart(8)} B  ${String(packed).padStart(7)} B gzipped`);
      }
      console.log(`* the first page  ${total.first} B of ${FIRST}\n  everything      ${total.all} B of ${ALL}`);
      if (total.first > FIRST || total.all > ALL) this.error("The page is larger than its budget.");
    },
  };
}
