import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { defineConfig, type Plugin } from "vite";
import { budget } from "./scripts/budget.mjs";

/** Adds a small script to the head that sets the theme before the first paint. Its name contains a hash. */
function themeFirst(): Plugin {
  const text = readFileSync(new URL("./src/theme-first.js", import.meta.url), "utf8").replace(/\/\*[\s\S]*?\*\/\s*/g, "").trim();
  const name = `assets/theme-${createHash("sha256").update(text).digest("hex").slice(0, 8)}.js`;
  return {
    name: "theme-first",
    apply: "build",
    generateBundle() {
      this.emitFile({ type: "asset", fileName: name, source: text + "\n" });
    },
    transformIndexHtml: () => [{ tag: "script", attrs: { src: `/${name}` }, injectTo: "head-prepend" }],
  };
}

export default defineConfig({
  plugins: [themeFirst(), budget()],
  build: {
    outDir: "../src/deepwork/views/dashboard/static",
    emptyOutDir: true,
    target: "esnext",
    cssTarget: ["chrome125", "firefox128", "safari18"],
    assetsInlineLimit: 0,
    modulePreload: false,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8765", "/ws": { target: "ws://127.0.0.1:8765", ws: true } } },
  test: { include: ["tests/**/*.test.ts"] },
} as Parameters<typeof defineConfig>[0]);
