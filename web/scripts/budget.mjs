// Prints the gzipped size of the built files; fails the build if the total exceeds the budget.
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";

const BUDGET = 120 * 1024;
const root = new URL("../../src/deepwork/views/dashboard/static", import.meta.url).pathname;
const files = readdirSync(root, { recursive: true }).filter((name) => statSync(join(root, name)).isFile()).sort();
let total = 0;
for (const name of files) {
  const bytes = readFileSync(join(root, name));
  const packed = gzipSync(bytes, { level: 9 }).length;
  total += packed;
  console.log(`${name.padEnd(40)} ${String(bytes.length).padStart(8)} B  ${String(packed).padStart(7)} B gzipped`);
}
console.log(`${"total".padEnd(40)} ${"".padStart(8)}    ${String(total).padStart(7)} B of ${BUDGET}`);
process.exit(total > BUDGET ? 1 : 0);
