import { describe, expect, test } from "vitest";
import { decode, HIDDEN, ONE, ZERO } from "../src/codec";
import { Engine } from "../src/engine/engine";
import { spansOf } from "../src/span";
import { TILE, type Level, type Native, type Normaliser, type Pool, type Span } from "../src/provider";
import { made, range, type Choice, type Made } from "./case";

const NORMALISERS: Normaliser[] = [
  { kind: "softmax" },
  { kind: "softmax", temperature: 0.5 },
  { kind: "relu" },
  { kind: "relu", normalised: false },
  { kind: "sigmoid", bias: -1 },
  { kind: "sparsemax" },
  { kind: "entmax", alpha: 1.5 },
  { kind: "hard", mode: "argmax" },
  { kind: "proportional", eps: 1e-6 },
];
const SCORES: Choice["score"][] = [{ kind: "product", factor: 0.5 }, { kind: "additive" }, { kind: "leaky", slope: 0.2 }, { kind: "dense" }];
const NATIVES: Record<string, Native | null> = {
  everything: { left: null, right: null },
  causal: { left: null, right: 0 },
  window: { left: 2, right: 1 },
  stored: null,
};
const shapes = [{ queries: 9, keys: 9 }, { queries: 7, keys: 12, real: 10 }, { queries: 4, keys: 11, offset: 7, kv_heads: 1 }];

/** The codes of a tile the plain way. */
function plain({ weights, visible }: Made, head: number, rows: readonly Span[], columns: readonly Span[], pool: Pool): number[][] {
  return rows.map(([top, bottom]) =>
    columns.map(([left, right]) => {
      const inside = range(bottom - top).flatMap((i) => range(right - left).map((j) => [i + top, j + left] as const));
      if (!inside.some(([i, j]) => visible[head]![i]![j])) return NaN;
      const values = inside.map(([i, j]) => weights[head]![i]![j]!);
      return pool === "peak" ? Math.max(...values) : values.reduce((sum, value) => sum + value, 0) / (bottom - top);
    }),
  );
}

const blocks = (length: number, level: number): Span[] => range(Math.ceil(length / 2 ** level)).map((c) => [c * 2 ** level, Math.min((c + 1) * 2 ** level, length)]);

function fits(code: number, want: number): boolean {
  if (Number.isNaN(want) || code === HIDDEN) return Number.isNaN(want) && code === HIDDEN;
  if (want < 6e-8) return code > 60000;
  return want > 256 ? code === 0 : Math.abs(decode(code)! / want - 1) < 3e-4;
}

async function agrees(it: Made, level: Level, pool: Pool): Promise<void> {
  const site = it.payload.trace.sites[0]!;
  const engine = new Engine(it.payload);
  const side = (name: string, length: number): readonly Span[] =>
    typeof level === "string" ? spansOf(it.payload.trace.sequences[name], level, length) : blocks(length, level);
  for (const head of range(site.heads)) {
    const codes = await engine.tile({ site: 0, head, level, row: 0, column: 0, pool });
    const expected = plain(it, head, side(site.query, site.queries), side(site.key, site.keys), typeof level === "string" ? "mass" : pool);
    expect(codes.length).toBe(TILE * TILE);
    // One assertion for 65,536 cells: what differs is listed.
    const wrong = Array.from(codes.entries()).filter(([at, code]) => !fits(code, expected[at >> 8]?.[at & 255] ?? NaN));
    expect(wrong.slice(0, 3)).toEqual([]);
  }
}

describe("tiles equal the map computed the plain way", () => {
  for (const normaliser of NORMALISERS)
    for (const score of SCORES)
      for (const [name, native] of Object.entries(NATIVES))
        test(`${JSON.stringify(normaliser)} of ${score.kind} scores, ${name}`, async () => {
          if (normaliser.kind === "proportional" && (score.kind === "additive" || score.kind === "leaky")) return expect(score.kind).not.toBe("product");
          for (const [seed, shape] of shapes.entries()) {
            const it = made({ ...shape, score, native, normaliser }, seed + 1);
            await agrees(it, 0, "peak");
            await agrees(it, 2, "mass");
          }
        });
  for (const level of [0, 1, 2, 3, 4, 9, "word", "sentence"] as const)
    for (const pool of ["peak", "mass"] as const)
      test(`level ${level}, ${pool}`, async () => {
        await agrees(made({ queries: 13, keys: 17, native: { left: 3, right: 1 } }, 7), level, pool);
      });
  test("with biases and reweights", async () => {
    for (const bias of [null, { kind: "distance" }, { kind: "dense" }] as const)
      for (const reweight of [null, { kind: "dense" }, { kind: "gaussian", sigma: 2 }] as const)
        await agrees(made({ queries: 8, keys: 10, bias, reweight, native: { left: null, right: 2 } }, 3), 1, "mass");
  });
});

describe("rows and cells", () => {
  test("a row and its cells are those of the map", async () => {
    const it = made({ native: { left: null, right: 0 } }, 5);
    const engine = new Engine(it.payload);
    const row = await engine.row(0, 1, 6);
    row.forEach((weight, j) => expect(weight).toBeCloseTo(it.weights[1]![6]![j]!, 6));
    const cell = await engine.value(0, 1, 6, 2);
    const seen = it.visible[1]![6]!.filter(Boolean).length;
    expect(cell.lift).toBeCloseTo(cell.weight * seen, 9);
    expect(cell.count).toBe(seen);
    expect(cell.rank).toBe(1 + it.weights[1]![6]!.filter((weight) => weight > cell.weight * (1 + 1e-5)).length);
    expect(cell.score).toBeCloseTo(it.scores[1]![6]![2]!, 5);
    expect((await engine.value(0, 1, 2, 6)).visible).toBe(false);
  });
  test("counts say how many keys each query sees", async () => {
    for (const native of Object.values(NATIVES)) {
      const it = made({ native, real: 7 }, 2);
      const counts = await new Engine(it.payload).counts(0, 0);
      expect([...counts]).toEqual(it.visible[0]!.map((row) => row.filter(Boolean).length));
    }
  });
});

describe("long maps", () => {
  const long = { queries: 1100, keys: 150, heads: 1, kv_heads: 1, feature: 4, native: { left: 990, right: 0 } } as const;
  test("levels of the pyramid equal tiles computed directly", async () => {
    const it = made(long, 11);
    const direct = new Engine(it.payload);
    const built = new Engine(it.payload);
    await built.overview(0, 0);
    for (const pool of ["peak", "mass"] as const)
      for (const level of [1, 3, 5]) {
        const request = { site: 0, head: 0, level, row: 0, column: 0, pool };
        const [one, other] = [await direct.tile(request), await built.tile(request)];
        expect(one.filter((code, at) => Math.abs(code - other[at]!) > 1)).toHaveLength(0);
      }
  });
  test("a request that is called off ends", async () => {
    const control = new AbortController();
    const asked = new Engine(made(long, 1).payload).tile({ site: 0, head: 0, level: 3, row: 0, column: 0, pool: "peak" }, control.signal);
    control.abort();
    await expect(asked).rejects.toThrow(/abort/i);
  });
  test("rows that see nothing are hidden, and zero is not hidden", async () => {
    const it = made({ native: { left: 1, right: 0 }, offset: 20, normaliser: { kind: "softmax" } }, 1);
    const codes = await new Engine(it.payload).tile({ site: 0, head: 0, level: 0, row: 0, column: 0, pool: "peak" });
    expect(codes.every((code) => code === HIDDEN)).toBe(true);
    const hard = await new Engine(made({ normaliser: { kind: "hard" } }).payload).tile({ site: 0, head: 0, level: 0, row: 0, column: 0, pool: "peak" });
    expect([...hard.subarray(0, 9)].filter((code) => code === ONE)).toHaveLength(1);
    expect([...hard.subarray(0, 9)].filter((code) => code === ZERO)).toHaveLength(8);
  });
});

describe("statistics", () => {
  test("are the means over rows of the plain map", async () => {
    const it = made({ native: { left: null, right: 0 } }, 9);
    const { heads, estimate } = await new Engine(it.payload).statistics(0);
    expect(estimate).toBe(false);
    const rows = it.weights[0]!;
    const mean = (of: (row: number[], i: number) => number): number => rows.reduce((sum, row, i) => sum + of(row, i), 0) / rows.length;
    const total = (row: number[], of: (p: number, j: number) => number): number => row.reduce((sum, p, j) => sum + of(p, j), 0);
    expect(heads[0]!.entropy).toBeCloseTo(mean((row) => total(row, (p) => (p > 0 ? -p * Math.log(p) : 0))), 5);
    expect(heads[0]!.distance).toBeCloseTo(mean((row, i) => total(row, (p, j) => p * Math.abs(i - j))), 5);
    expect(heads[0]!.sink).toBeCloseTo(mean((row) => row[0]!), 5);
    expect(heads[0]!.diagonality).toBeCloseTo(mean((row, i) => total(row, (p, j) => p * (1 - Math.abs(i - j) / 8))), 5);
    expect(heads[0]!.previous).toBeCloseTo(rows.slice(1).reduce((sum, row, i) => sum + row[i]!, 0) / 8, 5);
    const labels = it.payload.trace.sequences.target!.labels!;
    const induced = rows.map((row, i) => row.filter((_, j) => j >= 1 && j - 1 < i && j <= i && labels[j - 1] === labels[i]));
    const some = induced.filter((masses) => masses.length > 0);
    expect(heads[0]!.induction).toBeCloseTo(some.reduce((sum, masses) => sum + masses.reduce((a, b) => a + b, 0), 0) / some.length, 5);
  });
});
