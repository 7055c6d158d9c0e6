/** A provider at the other end of a port: the engine in a worker of a standalone page, or Python behind a notebook. */

import type { Answer, Method, Question } from "./protocol";
import type { Cell, Codes, Statistics, Step, Thumbnail, TileProvider, TileRequest, Trace } from "./provider";

interface Open {
  resolve(value: unknown): void;
  reject(error: Error): void;
  estimate: ((codes: Codes) => void) | undefined;
}

/** A worker, or one end of a message channel. */
export interface Speaker {
  onmessage: ((event: MessageEvent) => void) | null;
  onerror?: ((event: ErrorEvent) => unknown) | null;
  postMessage(question: Question): void;
  terminate?(): void;
  close?(): void;
}

export class RemoteProvider implements TileProvider {
  private readonly open = new Map<number, Open>();
  private next = 0;

  constructor(
    private readonly speaker: Speaker,
    payload: string | null = null,
  ) {
    speaker.onmessage = ({ data }: MessageEvent<Answer>) => this.hear(data);
    speaker.onerror = (event) => this.fail(new Error(event.message || "The worker of the viewer failed."));
    if (payload !== null) this.say({ start: payload });
  }

  private say(question: Question): void {
    this.speaker.postMessage(question);
  }

  private hear(answer: Answer): void {
    const asked = this.open.get(answer.id);
    if (!asked) return;
    if ("estimate" in answer) return asked.estimate?.(answer.estimate);
    this.open.delete(answer.id);
    if ("error" in answer) asked.reject(answer.aborted ? new DOMException("called off", "AbortError") : new Error(answer.error));
    else asked.resolve(answer.value);
  }

  private fail(error: Error): void {
    for (const asked of this.open.values()) asked.reject(error);
    this.open.clear();
  }

  private ask<T>(method: Method, args: unknown[], signal?: AbortSignal, estimate?: (codes: Codes) => void): Promise<T> {
    if (signal?.aborted) return Promise.reject(new DOMException("called off", "AbortError"));
    const id = this.next++;
    signal?.addEventListener("abort", () => this.callOff(id), { once: true });
    return new Promise<T>((resolve, reject) => {
      this.open.set(id, { resolve: resolve as (value: unknown) => void, reject, estimate });
      this.say({ id, method, args });
    });
  }

  /** Whoever asked need not wait for the worker to hear of it. */
  private callOff(id: number): void {
    const asked = this.open.get(id);
    if (!asked) return;
    this.open.delete(id);
    asked.reject(new DOMException("called off", "AbortError"));
    this.say({ stop: id });
  }

  meta(): Promise<Trace> {
    return this.ask("meta", []);
  }
  tile(request: TileRequest, signal?: AbortSignal, estimate?: (codes: Codes) => void): Promise<Codes> {
    return this.ask("tile", [request], signal, estimate);
  }
  row(site: number, head: number, query: number, signal?: AbortSignal): Promise<Float32Array> {
    return this.ask("row", [site, head, query], signal);
  }
  value(site: number, head: number, query: number, key: number, signal?: AbortSignal): Promise<Cell> {
    return this.ask("value", [site, head, query, key], signal);
  }
  counts(site: number, head: number, signal?: AbortSignal): Promise<Uint32Array> {
    return this.ask("counts", [site, head], signal);
  }
  statistics(site: number, signal?: AbortSignal): Promise<Statistics> {
    return this.ask("statistics", [site], signal);
  }
  overview(site: number, head: number, signal?: AbortSignal): Promise<Thumbnail> {
    return this.ask("overview", [site, head], signal);
  }
  steps(site: number, head: number, query: number, signal?: AbortSignal): Promise<Step[]> {
    return this.ask("steps", [site, head, query], signal);
  }
  numbers(site: number, signal?: AbortSignal): Promise<Uint8Array> {
    return this.ask("numbers", [site], signal);
  }
  close(): void {
    this.speaker.terminate?.();
    this.speaker.close?.();
    this.fail(new DOMException("closed", "AbortError"));
  }
}

/** From the elements that a standalone page carries. The script of the worker is part of the page. */
export function embedded(payload: string, script: string): RemoteProvider {
  const url = URL.createObjectURL(new Blob([script], { type: "text/javascript" }));
  return new RemoteProvider(new Worker(url), payload);
}
