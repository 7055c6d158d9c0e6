/** The provider that a page brings: a trace inside, or a server's address. */

import { HttpProvider } from "./http";
import type { TileProvider } from "./provider";
import { embedded, WorkerProvider } from "./remote";

/** A trace as base64, computed by a worker: its script is in the page, or lies beside it. */
export function open(payload: string): TileProvider {
  const script = document.getElementById("worker")?.textContent;
  return script ? embedded(payload, script) : new WorkerProvider(new Worker("worker.js"), payload);
}

export function found(root: HTMLElement): TileProvider | null {
  const trace = document.getElementById("trace")?.textContent;
  if (trace) return open(trace);
  const api = root.dataset["api"];
  return api ? new HttpProvider(api) : null;
}
