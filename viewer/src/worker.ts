/** The engine behind a message port. */

import { Engine } from "./engine/engine";
import { unpack } from "./engine/payload";
import type { Answer, Question } from "./protocol";
import type { TileProvider } from "./provider";

interface Port {
  onmessage: ((event: MessageEvent<Question>) => void) | null;
  postMessage(answer: Answer, transfer?: Transferable[]): void;
}

export function serve(port: Port): void {
  let engine: Promise<TileProvider> | null = null;
  const running = new Map<number, AbortController>();
  port.onmessage = ({ data }) => {
    if ("start" in data) engine = unpack(data.start).then((payload) => new Engine(payload));
    else if ("stop" in data) running.get(data.stop)?.abort();
    else void answer(data);
  };
  async function answer({ id, method, args }: { id: number; method: string; args: unknown[] }): Promise<void> {
    const control = new AbortController();
    running.set(id, control);
    try {
      const provider = (await engine) as unknown as Record<string, (...given: unknown[]) => Promise<unknown>>;
      const estimate = (codes: Uint16Array): void => port.postMessage({ id, estimate: codes }, [codes.buffer]);
      const last = method === "tile" ? [control.signal, estimate] : [control.signal];
      const value = await provider[method]!(...args, ...last);
      port.postMessage({ id, value }, ArrayBuffer.isView(value) ? [value.buffer as ArrayBuffer] : []);
    } catch (error) {
      const aborted = control.signal.aborted;
      port.postMessage({ id, error: error instanceof Error ? error.message : String(error), aborted });
    } finally {
      running.delete(id);
    }
  }
}

if (typeof document === "undefined" && typeof self !== "undefined") serve(self as unknown as Port);
