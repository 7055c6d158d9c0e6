/** The provider that a page brings: a trace inside, or a server's address. */

import { HttpProvider } from "./http";
import type { TileProvider } from "./provider";
import { embedded, RemoteProvider } from "./remote";

/** A trace as base64, computed by a worker: its script is in the page, or lies beside it. */
export function open(payload: string): TileProvider {
  const script = document.getElementById("worker")?.textContent;
  return script ? embedded(payload, script) : new RemoteProvider(new Worker("worker.js"), payload);
}

export async function found(root: HTMLElement): Promise<TileProvider | null> {
  const trace = document.getElementById("trace")?.textContent;
  if (trace) return open(trace);
  if (root.dataset["port"] !== undefined) return new RemoteProvider(await handed());
  const api = root.dataset["api"];
  return api ? new HttpProvider(api) : null;
}

/** The port that the notebook around this frame hands in. */
function handed(): Promise<MessagePort> {
  return new Promise((resolve) => {
    addEventListener("message", function hear({ source, ports: [port] }) {
      if (source !== parent || !port) return;
      removeEventListener("message", hear);
      resolve(port);
    });
  });
}
