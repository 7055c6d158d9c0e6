/** The provider of a page that a server sends: see Python's `foveate.serve`. */

import type { Cell, Codes, Rerun, RerunAnswer, Statistics, Step, Thumbnail, TileProvider, TileRequest, Trace } from "./provider";

export class HttpProvider implements TileProvider {
  constructor(
    private readonly base: string,
    private readonly trace: string | null = null,
    private readonly ask: typeof fetch = (...given) => fetch(...given),
  ) {}

  private async get(path: string, signal?: AbortSignal, query: Record<string, string> = {}): Promise<Response> {
    const parameters = new URLSearchParams(query);
    if (this.trace !== null) parameters.set("trace", this.trace);
    const tail = parameters.size ? `?${parameters}` : "";
    return checked(await this.ask(`${this.base}${path}${tail}`, { credentials: "omit", ...(signal ? { signal } : {}) }));
  }

  private async json<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await (await this.get(path, signal)).json()) as T;
  }

  meta(): Promise<Trace> {
    return this.json("trace");
  }
  async tile({ site, head, level, row, column, pool }: TileRequest, signal?: AbortSignal): Promise<Codes> {
    const answer = await this.get(`tile/${site}/${head}/${level}/${row}/${column}`, signal, { pool });
    return new Uint16Array(await answer.arrayBuffer());
  }
  async row(site: number, head: number, query: number, signal?: AbortSignal): Promise<Float32Array> {
    return new Float32Array(await (await this.get(`row/${site}/${head}/${query}`, signal)).arrayBuffer());
  }
  value(site: number, head: number, query: number, key: number, signal?: AbortSignal): Promise<Cell> {
    return this.json(`value/${site}/${head}/${query}/${key}`, signal);
  }
  async counts(site: number, head: number, signal?: AbortSignal): Promise<Uint32Array> {
    return new Uint32Array(await (await this.get(`counts/${site}/${head}`, signal)).arrayBuffer());
  }
  statistics(site: number, signal?: AbortSignal): Promise<Statistics> {
    return this.json(`statistics/${site}`, signal);
  }
  async overview(site: number, head: number, signal?: AbortSignal): Promise<Thumbnail> {
    const answer = await this.get(`overview/${site}/${head}`, signal);
    return { codes: new Uint16Array(await answer.arrayBuffer()), estimate: answer.headers.get("X-Foveate-Estimate") === "1" };
  }
  steps(site: number, head: number, query: number, signal?: AbortSignal): Promise<Step[]> {
    return this.json(`steps/${site}/${head}/${query}`, signal);
  }
  async rerun(request: Rerun): Promise<RerunAnswer> {
    const headers = { "Content-Type": "application/json" };
    const options = { method: "POST", credentials: "omit" as const, headers, body: JSON.stringify(request) };
    return (await checked(await this.ask(`${this.base}rerun`, options))).json() as Promise<RerunAnswer>;
  }
  other(trace: string): HttpProvider {
    return new HttpProvider(this.base, trace, this.ask);
  }
  close(): void {}
}

async function checked(answer: Response): Promise<Response> {
  if (answer.ok) return answer;
  const said = (await answer.text().catch(() => "")).slice(0, 300);
  throw new Error(`The server answered ${answer.status}: ${said || answer.statusText}`);
}
