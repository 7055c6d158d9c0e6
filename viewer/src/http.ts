/** The provider of a page that a server sends: see Python's `foveate.serve`. */

import { MEASURES, type Ablate, type Ablation, type Behaviour, type Cell, type Codes, type Measure, type Measures, type Rerun, type RerunAnswer, type Statistics, type Step, type Thumbnail, type TileProvider, type TileRequest, type Trace } from "./provider";

/** From this level on a server first answers with a guess, if asked for one. */
const SLOW = 5;

interface Told {
  /** A measure that has no meaning for a head is null. */
  heads: Record<Measure, number | null>[];
  behaviours: Behaviour[];
  estimate?: boolean;
}

/** The server has ended, or cannot be reached. */
export class GoneError extends Error {
  override readonly name = "GoneError";
  constructor() {
    super("The server of this page does not answer.");
  }
}

const estimated = (answer: Response): boolean => answer.headers.get("X-Foveate-Estimate") === "1";

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
    return checked(await this.reached(`${this.base}${path}${tail}`, { credentials: "omit", ...(signal ? { signal } : {}) }));
  }

  private async reached(url: string, options: RequestInit): Promise<Response> {
    try {
      return await this.ask(url, options);
    } catch (error) {
      // What browsers say of a server that has ended differs, and helps nobody.
      throw error instanceof TypeError ? new GoneError() : error;
    }
  }

  private async json<T>(path: string, signal?: AbortSignal): Promise<T> {
    return (await (await this.get(path, signal)).json()) as T;
  }

  private async post<T>(path: string, body: object): Promise<T> {
    const headers = { "Content-Type": "application/json" };
    const options = { method: "POST", credentials: "omit" as const, headers, body: JSON.stringify(body) };
    return (await checked(await this.reached(`${this.base}${path}`, options))).json() as Promise<T>;
  }

  meta(): Promise<Trace> {
    return this.json("trace");
  }
  async tile({ site, head, level, row, column, pool }: TileRequest, signal?: AbortSignal, estimate?: (codes: Codes) => void): Promise<Codes> {
    const path = `tile/${site}/${head}/${level}/${row}/${column}`;
    if (estimate && typeof level === "number" && level >= SLOW) {
      const guess = await this.get(path, signal, { pool, estimate: "1" });
      const codes = new Uint16Array(await guess.arrayBuffer());
      if (!estimated(guess)) return codes;
      estimate(codes);
    }
    return new Uint16Array(await (await this.get(path, signal, { pool })).arrayBuffer());
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
  async statistics(site: number, signal?: AbortSignal): Promise<Statistics> {
    const { heads, behaviours, estimate } = await this.json<Told>(`statistics/${site}`, signal);
    const whole = (told: Told["heads"][number]): Measures => Object.fromEntries(MEASURES.map((name) => [name, told[name] ?? 0])) as Measures;
    return { heads: heads.map(whole), behaviours, estimate: estimate ?? false };
  }
  async overview(site: number, head: number, signal?: AbortSignal): Promise<Thumbnail> {
    const answer = await this.get(`overview/${site}/${head}`, signal);
    return { codes: new Uint16Array(await answer.arrayBuffer()), estimate: estimated(answer) };
  }
  steps(site: number, head: number, query: number, signal?: AbortSignal): Promise<Step[]> {
    return this.json(`steps/${site}/${head}/${query}`, signal);
  }
  async numbers(site: number, signal?: AbortSignal): Promise<Uint8Array> {
    return new Uint8Array(await (await this.get(`numbers/${site}`, signal)).arrayBuffer());
  }
  rerun(request: Rerun): Promise<RerunAnswer> {
    return this.post("rerun", request);
  }
  ablate(request: Ablate): Promise<Ablation> {
    return this.post("ablate", request);
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
