/** The provider that a page brings: a trace inside, or a server's address. */

import { HttpProvider } from "./http";
import type { Place } from "./protocol";
import type { TileProvider } from "./provider";
import { embedded, RemoteProvider } from "./remote";

/** A trace as base64, computed by a worker: its script is in the page, or lies beside it. */
export function open(payload: string): TileProvider {
  const script = document.getElementById("worker")?.textContent;
  return script ? embedded(payload, script) : new RemoteProvider(new Worker("worker.js"), payload);
}

export interface Found {
  provider: TileProvider;
  /** Another model's trace of the same text. */
  beside?: TileProvider;
  /** In a notebook: where its Python looks, and the port that says so. */
  notebook?: Handed;
}

export async function found(root: HTMLElement): Promise<Found | null> {
  const trace = document.getElementById("trace")?.textContent;
  const beside = document.getElementById("beside")?.textContent;
  if (trace) return { provider: open(trace), ...(beside && { beside: open(beside) }) };
  if (root.dataset["port"] !== undefined) {
    const notebook = await handed();
    return { provider: new RemoteProvider(notebook.port), notebook };
  }
  const api = root.dataset["api"];
  // A rerun of the server has an address of its own: the page's, with its name.
  return api ? { provider: new HttpProvider(api, new URLSearchParams(location.search).get("trace")) } : null;
}

export interface Handed {
  port: MessagePort;
  place: Place | null;
}

/** The port that the notebook around this frame hands in. */
function handed(): Promise<Handed> {
  return new Promise((resolve) => {
    addEventListener("message", function hear({ source, data, ports: [port] }) {
      if (source !== parent || !port) return;
      removeEventListener("message", hear);
      resolve({ port, place: (data as { place?: Place } | null)?.place ?? null });
    });
  });
}
