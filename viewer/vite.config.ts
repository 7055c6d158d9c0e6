import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// Two bundles from two entries, each one classic script: they work inlined in a page that is opened from a file.
export default defineConfig(({ mode }) => ({
  publicDir: mode === "viewer" ? here("public") : false,
  build: {
    outDir: here("../src/foveate/serve/static"),
    emptyOutDir: false,
    target: "es2022",
    minify: true,
    sourcemap: false,
    reportCompressedSize: false,
    lib: {
      entry: here(mode === "worker" ? "src/worker.ts" : "src/main.ts"),
      formats: ["iife"],
      name: mode === "worker" ? "foveateWorker" : "foveateViewer",
      fileName: () => (mode === "worker" ? "worker.js" : "viewer.js"),
      cssFileName: "viewer",
    },
  },
  test: { include: ["test/**/*.test.ts"], environment: "node" },
}));
