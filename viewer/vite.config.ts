import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

// Three bundles from three entries. The viewer and its worker are classic scripts: they work inlined in a page that is
// opened from a file. The widget is what a notebook imports.
const ENTRIES: Record<string, string> = { worker: "src/worker.ts", widget: "src/widget.ts" };

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
      entry: here(ENTRIES[mode] ?? "src/main.ts"),
      formats: [mode === "widget" ? "es" : "iife"],
      name: mode === "worker" ? "foveateWorker" : "foveateViewer",
      fileName: () => `${mode in ENTRIES ? mode : "viewer"}.js`,
      cssFileName: "viewer",
    },
  },
  test: { include: ["test/**/*.test.ts"], environment: "node" },
}));
