import { deflateRawSync } from "node:zlib";
import { MessageChannel } from "node:worker_threads";
import { expect, test } from "vitest";
import { block } from "../src/block";
import { Cached } from "../src/cached";
import { assemble, unpack } from "../src/engine/payload";
import { Engine } from "../src/engine/engine";
import { GoneError, HttpProvider } from "../src/http";
import { RemoteProvider } from "../src/remote";
import { serve } from "../src/worker";
import { lecture } from "../e2e/trace";
import { made } from "./case";

const { trace, tensors } = lecture();
const packed = deflateRawSync(assemble(trace, tensors)).toString("base64");

test("a packed trace is read back whole", async () => {
  const payload = await unpack(packed);
  expect(payload.trace).toEqual(trace);
  expect(payload.tensors[0]!.get("key")!.data).toEqual(tensors[0]!["key"]!.data);
});
test("another version and a trace that is cut short are refused", async () => {
  const base64 = (bytes: Uint8Array): string => deflateRawSync(bytes).toString("base64");
  await expect(unpack(base64(assemble({ ...trace, version: 3 }, tensors)))).rejects.toThrow(/version 3/);
  const whole = assemble(trace, tensors);
  await expect(unpack(base64(whole.subarray(0, whole.length - 8)))).rejects.toThrow(/cut short/);
});

test("the worker answers as its engine does, passes errors on and can be stopped", async () => {
  const { port1, port2 } = new MessageChannel();
  serve(port1 as never);
  port1.on("message", (data) => (port1 as unknown as { onmessage: (event: unknown) => void }).onmessage({ data }));
  const worker = { postMessage: (question: unknown) => port2.postMessage(question), terminate: () => port2.close() } as unknown as Worker;
  port2.on("message", (data) => worker.onmessage!({ data } as MessageEvent));
  const provider = new RemoteProvider(worker, packed);
  const engine = new Engine(await unpack(packed));
  const request = { site: 0, head: 0, level: 0, row: 0, column: 0, pool: "peak" } as const;
  expect(await provider.tile(request)).toEqual(await engine.tile(request));
  expect(await provider.value(0, 0, 0, 1)).toEqual(await engine.value(0, 0, 0, 1));
  await expect(provider.row(9, 0, 0)).rejects.toThrow(/no site 9/);
  const control = new AbortController();
  const asked = provider.tile(request, control.signal);
  control.abort();
  await expect(asked).rejects.toThrow(/called off/);
  provider.close();
});

test("a server is asked by the agreed addresses", async () => {
  const asked: string[] = [];
  const codes = new Uint16Array(65536).fill(7);
  const answer = (url: string, options?: RequestInit): Promise<Response> => {
    asked.push(`${options?.method ?? "GET"} ${url}`);
    if (url.includes("tile")) return Promise.resolve(new Response(codes.buffer));
    if (url.includes("overview")) return Promise.resolve(new Response(new Uint16Array(4096).buffer, { headers: { "X-Foveate-Estimate": "1" } }));
    if (url.includes("row") || url.includes("counts")) return Promise.resolve(new Response(new Float32Array(3).buffer));
    if (url.includes("gone")) return Promise.resolve(new Response("no such site", { status: 404 }));
    return Promise.resolve(Response.json({}));
  };
  const provider = new HttpProvider("api/", null, answer as typeof fetch);
  expect(await provider.tile({ site: 1, head: 2, level: "word", row: 3, column: 4, pool: "mass" })).toEqual(codes);
  expect((await provider.overview(1, 2)).estimate).toBe(true);
  await provider.row(0, 1, 2);
  await provider.value(0, 1, 2, 3);
  await provider.other("b").steps(0, 1, 2);
  await provider.rerun({ source: "x", target: null, heads_off: [[0, 1]], tokens_off: [2] });
  expect(asked).toEqual(["GET api/tile/1/2/word/3/4?pool=mass", "GET api/overview/1/2", "GET api/row/0/1/2", "GET api/value/0/1/2/3", "GET api/steps/0/1/2?trace=b", "POST api/rerun"]);
  await expect(new HttpProvider("gone/", null, answer as typeof fetch).meta()).rejects.toThrow(/404: no such site/);
});

test("a slow tile is asked for twice: a guess to show, then the tile itself", async () => {
  const asked: string[] = [];
  const answer = (url: string): Promise<Response> => {
    asked.push(url);
    const guess = url.includes("estimate=1");
    return Promise.resolve(new Response(new Uint16Array([guess ? 1 : 2]).buffer, { headers: { "X-Foveate-Estimate": guess ? "1" : "0" } }));
  };
  const guesses: Uint16Array[] = [];
  const provider = new HttpProvider("", null, answer as typeof fetch);
  const ask = (level: number) => provider.tile({ site: 0, head: 0, level, row: 0, column: 0, pool: "peak" }, undefined, (codes) => guesses.push(codes));
  expect([...(await ask(6)), ...(await ask(4))]).toEqual([2, 2]);
  expect(guesses.map(([code]) => code)).toEqual([1]);
  expect(asked).toEqual(["tile/0/0/6/0/0?pool=peak&estimate=1", "tile/0/0/6/0/0?pool=peak", "tile/0/0/4/0/0?pool=peak"]);
});

test("a server that has ended is known by one error, and by every question until it answers again", async () => {
  let up = false;
  const ask = (() => (up ? Promise.resolve(Response.json({ sites: [] })) : Promise.reject(new TypeError("Failed to fetch")))) as unknown as typeof fetch;
  const provider = new Cached(new HttpProvider("", null, ask));
  for (const asked of [() => provider.meta(), () => provider.row(0, 0, 0), () => provider.value(0, 0, 0, 0), () => provider.steps(0, 0, 0), () => provider.statistics(0), () => provider.counts(0, 0), () => provider.rerun({ source: "", target: null, heads_off: [], tokens_off: [] })]) {
    provider.gone.value = false;
    await expect(asked()).rejects.toThrow(GoneError);
    expect(provider.gone.value).toBe(true);
  }
  expect(await provider.ping()).toBe(false);
  up = true;
  expect(await provider.ping()).toBe(true);
});

test("a weight that is not a number comes as null and is one again", async () => {
  const answer = (): Promise<Response> => Promise.resolve(Response.json({ weight: null, lift: null, rank: 1, count: 3, visible: true, score: null }));
  expect(await new Cached(new HttpProvider("", null, answer as typeof fetch)).value(0, 0, 0, 0)).toEqual({ weight: NaN, lift: NaN, rank: 1, count: 3, visible: true, score: NaN });
});

test("measures without a meaning count as 0", async () => {
  const answer = (): Promise<Response> => Promise.resolve(Response.json({ heads: [{ entropy: 1, previous: null }], behaviours: ["flat"], estimate: true }));
  const { heads, behaviours, estimate } = await new HttpProvider("", null, answer as typeof fetch).statistics(0);
  expect(behaviours).toEqual(["flat"]);
  expect([heads[0]!.entropy, heads[0]!.previous, heads[0]!.sink, estimate]).toEqual([1, 0, 0, true]);
});

test("a block of weights is put together from its tiles, each asked for once", async () => {
  const it = made({ queries: 300, keys: 270, heads: 1, kv_heads: 1, native: { left: null, right: 0 } });
  let asked = 0;
  const engine = new Engine(it.payload);
  const counting = Object.assign(Object.create(engine) as Engine, { tile: (...given: Parameters<Engine["tile"]>) => ((asked += 1), engine.tile(...given)) });
  const provider = new Cached(counting);
  const found = await block(provider, 0, 0, [250, 262], [254, 258]);
  found.forEach((row, i) => row.forEach((weight, j) => {
    const [query, key] = [250 + i, 254 + j];
    if (key > query) expect(weight).toBeNull();
    else expect(weight! / it.weights[0]![query]![key]!).toBeCloseTo(1, 3);
  }));
  await block(provider, 0, 0, [250, 262], [254, 258]);
  expect(asked).toBe(4);
});
