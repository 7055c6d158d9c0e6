/** A server as Python's is, on this machine only: the engine behind the agreed addresses, with a model that only pretends. */

import { readFileSync } from "node:fs";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { fileURLToPath } from "node:url";
import { Engine } from "../src/engine/engine";
import type { Rerun, RerunAnswer } from "../src/provider";
import type { Example } from "./trace";

const STATIC = fileURLToPath(new URL("../../src/foveate/serve/static/", import.meta.url));
const KINDS: Record<string, string> = { html: "text/html", js: "text/javascript", css: "text/css" };
export const STRICT = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self' blob:";

export interface Served {
  url: string;
  reruns: Rerun[];
  close(): void;
}

export async function served(first: Example, second: Example, model: (request: Rerun) => RerunAnswer): Promise<Served> {
  const engines = [first, second].map(({ trace, tensors }) => new Engine({ trace: { ...trace, attached: true }, tensors: tensors.map((named) => new Map(Object.entries(named))) }));
  const reruns: Rerun[] = [];
  const api = async (path: string, query: URLSearchParams): Promise<Uint8Array | object> => {
    const engine = engines[query.has("trace") ? 1 : 0]!;
    const [what, ...rest] = path.split("/");
    const [site = 0, head = 0, a = 0, b = 0, c = 0] = rest.map(Number);
    const bytes = ({ buffer }: Uint16Array | Float32Array | Uint32Array): Uint8Array => new Uint8Array(buffer as ArrayBuffer);
    const level = Number.isNaN(a) ? (rest[2] as "word") : a;
    if (what === "trace") return engine.meta();
    if (what === "tile") return bytes(await engine.tile({ site, head, level, row: b, column: c, pool: query.get("pool") as "peak" }));
    if (what === "row") return bytes(await engine.row(site, head, a));
    if (what === "counts") return bytes(await engine.counts(site, head));
    if (what === "value") return engine.value(site, head, a, b);
    if (what === "statistics") return engine.statistics(site);
    if (what === "steps") return engine.steps(site, head, a);
    if (what === "numbers") return engine.numbers(site);
    return bytes((await engine.overview(site, head)).codes);
  };
  const server: Server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://localhost");
    const path = pathname.replace("/t/secret/", "");
    response.setHeader("Content-Security-Policy", STRICT);
    const send = (body: Uint8Array | object): void => void (body instanceof Uint8Array ? response.end(body) : response.setHeader("Content-Type", "application/json").end(JSON.stringify(body)));
    const refuse = (error: unknown): void => void response.writeHead(500).end(String(error));
    if (path === "api/rerun") {
      let text = "";
      request.on("data", (part: Buffer) => (text += part.toString()));
      request.on("end", () => {
        reruns.push(JSON.parse(text) as Rerun);
        send(model(reruns.at(-1)!));
      });
    } else if (path.startsWith("api/")) api(path.slice(4), searchParams).then(send, refuse);
    else {
      const name = path === "" ? "index.html" : path;
      if (!/^[a-z]+\.(html|js|css)$/.test(name)) return refuse("no such file");
      response.setHeader("Content-Type", KINDS[name.split(".")[1]!]!);
      response.end(readFileSync(STATIC + name));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/t/secret/`;
  return { url, reruns, close: () => server.close() };
}
