// Lets the suite start on Node 20: it imports `globSync`, which `fs` has since Node 22, for a command that we do not use.
import { register } from "node:module";

const hooks = `
  export const resolve = (name, context, next) =>
    name === "fs" && context.parentURL?.includes("@modelcontextprotocol/conformance/")
      ? { url: "deepwork:fs", shortCircuit: true }
      : next(name, context);
  export const load = (url, context, next) =>
    url === "deepwork:fs"
      ? { format: "module", shortCircuit: true, source: 'export * from "node:fs"; export const globSync = undefined;' }
      : next(url, context);
`;
register("data:text/javascript," + encodeURIComponent(hooks));
