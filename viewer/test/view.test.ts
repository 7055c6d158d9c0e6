import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { describe, expect, test, vi } from "vitest";
import { clamped, fitted, levelFor, tickStep, tilesIn, toPixel, toUnit, zoomed } from "../src/camera";
import { decode, encode, HIDDEN, ONE, STEPS, UNKNOWN, ZERO } from "../src/codec";
import { coded, openingOf, shown, titled, type App } from "../src/app";
import { colourAt, differencePixels, pixels, strength } from "../src/colour";
import { brief, direction, joined, matches, printable, reading } from "../src/label";
import { rowShifts } from "../src/lift";
import { errorRate, links, meanOf, pharaoh } from "../src/link";
import type { Site, Trace } from "../src/provider";
import { nothing } from "../src/view/reading";
import { naming } from "../src/view/ruler";
import { LeastRecent } from "../src/recent";
import { journey, ways } from "../src/scene/hop";
import { arranged, spread } from "../src/scene/layout";
import { arrowhead, roads, strokes, toScale } from "../src/scene/road";
import { lines } from "../src/view/about";
import { effect, signal } from "../src/signal";
import { preferred, spoken, type Word } from "../src/strings/strings";
import english from "../src/strings/en.json";
import persian from "../src/strings/fa.json";
import russian from "../src/strings/ru.json";
import chinese from "../src/strings/zh.json";

import { Random } from "./case";

const frame = { width: 800, height: 600 };

describe("the camera", () => {
  test("fits a whole map, and no further out", () => {
    const camera = fitted({ rows: 1000, columns: 1000 }, frame);
    expect(camera).toEqual({ x: 500, y: 500, zoom: 0.588 });
    expect(clamped({ ...camera, zoom: 0.01 }, { rows: 1000, columns: 1000 }, frame)).toEqual(camera);
  });
  test("keeps the unit under the pointer where it is", () => {
    const camera = { x: 300, y: 400, zoom: 2 };
    const before = toUnit(camera, frame, 120, 90);
    toUnit(zoomed(camera, 3, 120, 90, frame), frame, 120, 90).forEach((value, at) => expect(value).toBeCloseTo(before[at]!, 9));
    expect(toPixel(camera, frame, 300, 400)).toEqual([400, 300]);
  });
  test("takes the least level whose cells are a pixel", () => {
    expect([4, 1, 0.5, 0.3, 0.001].map((zoom) => levelFor(zoom, { rows: 32768, columns: 32768 }))).toEqual([0, 0, 1, 2, 7]);
  });
  test("asks for the tiles in sight, the middle first", () => {
    const places = tilesIn({ x: 500, y: 500, zoom: 1 }, { rows: 1000, columns: 1000 }, frame, 0);
    expect(places).toHaveLength(4 * 4);
    expect(places[0]).toEqual({ level: 0, row: 1, column: 1 });
  });
  test("sets ticks at round numbers", () => {
    expect([10, 1, 0.1, 0.01].map((zoom) => tickStep(zoom, 48))).toEqual([5, 50, 500, 5000]);
  });
});

describe("colours", () => {
  const look = { scale: "log", theme: "light", pool: "peak" } as const;
  const tile = (codes: number[]): Uint16Array => Object.assign(new Uint16Array(65536).fill(HIDDEN), Object.fromEntries(codes.entries())) as Uint16Array;
  test("hidden is transparent, zero is neither hidden nor faint, and what is not a number is none of them", () => {
    expect([encode(NaN), decode(UNKNOWN), decode(HIDDEN)]).toEqual([UNKNOWN, NaN, null]);
    for (const theme of ["light", "dark"] as const)
      for (const scale of ["log", "lift", "linear"] as const) {
        const painted = pixels(tile([HIDDEN, ZERO, encode(1e-7), encode(1), encode(NaN)]), { ...look, theme, scale });
        expect(painted[0]).toBe(0);
        expect(new Set(painted.subarray(0, 5)).size).toBe(5);
      }
    expect(new Set(differencePixels(tile([UNKNOWN, encode(1)]), tile([encode(1), UNKNOWN]), "light").subarray(0, 2)).size).toBe(1);
  });
  test("lift is neutral for equal shares, at every level and pooling", () => {
    const counts = new Uint32Array(1024).fill(512);
    for (const pool of ["peak", "mass"] as const)
      for (const level of [0, 2]) {
        const weight = pool === "mass" ? 2 ** level / 512 : 1 / 512;
        const painted = pixels(tile([encode(weight)]), { scale: "lift", theme: "light", pool }, rowShifts(counts, level, 0, pool));
        expect(painted[0]).toBe(colourAt("lift", "light", 0.5));
      }
  });
  test("strengths rise with weights", () => {
    expect(strength("log", 1)).toBe(1);
    expect(strength("log", 1e-6)).toBeCloseTo(0, 9);
    expect(strength("lift", 1)).toBe(0.5);
    expect([encode(0.5), encode(2)]).toEqual([ONE + STEPS, ONE - STEPS]);
  });
  test("differences are opposite colours, and equal weights neutral", () => {
    const [a, b] = [tile([encode(0.5), encode(0.2), encode(0.1)]), tile([encode(0.2), encode(0.5), encode(0.1)])];
    const painted = differencePixels(a, b, "light");
    expect(painted[2]).toBe(colourAt("lift", "light", 0.5));
    expect(painted[0]).toBe(differencePixels(b, a, "light")[1]);
    expect(painted[100]).toBe(0);
  });
});

describe("labels", () => {
  test("what is invisible is shown, joiners stay", () => {
    expect(["tag\u{e0041}"].map(printable)).toEqual(["tag\\U000e0041"]);
    expect(["a\u202eb", " the", "\n", "", "می\u200cروم"].map(printable)).toEqual(["a\\u202eb", "␣the", "\\n", "∅", "می\u200cروم"]);
  });
  test("each label has its own direction, each text that of most of its letters", () => {
    expect(["سلام", "¿qué", "...", "你好"].map(direction)).toEqual(["rtl", "ltr", "ltr", "ltr"]);
    expect(reading(["سلام", "دنیا", "OK", "</s>"])).toBe("rtl");
    expect(reading(["我", "。"])).toBe("ltr");
  });
  test("pieces of words are joined without their marks", () => {
    expect([["▁in", "vis"], ["ba@@", "na"], ["un", "##seen"], ["▁"]].map(joined)).toEqual(["invis", "bana", "unseen", "▁"]);
  });
  test("search minds neither case nor compatibility forms", () => {
    expect(matches("▁Needle", "needle")).toBe(true);
    expect(matches("ﬁre", "fire")).toBe(true);
    expect(matches("x", "")).toBe(false);
  });
  test("search finds letters in whatever language the browser is", () => {
    const lower = vi.spyOn(String.prototype, "toLocaleLowerCase").mockImplementation(function (this: string) {
      return this.replaceAll("I", "ı").toLowerCase();
    });
    expect(matches("IBM", "ibm")).toBe(true);
    lower.mockRestore();
  });
});

describe("links", () => {
  const weights = [[0.1, 0.9], [0.5, 0.5], [null, null]];
  test("a mean is of all heads, and hidden where all heads see nothing", () => {
    expect(meanOf([[[1, null, null, NaN]], [[0, 0.5, null, 0.5]]])).toEqual([[0.5, 0.25, null, NaN]]);
    expect(links([[null, NaN, 0.2]], null)).toEqual([[0, 2]]);
  });
  test("the largest of each row, the first of equals, none where nothing is seen", () => {
    expect(links(weights, null)).toEqual([[0, 1], [1, 0]]);
    expect(links(weights, 0.5)).toEqual([[0, 1], [1, 0], [1, 1]]);
  });
  test("are text for word aligners, source first", () => {
    expect(pharaoh([[0, 1], [1, 0]])).toBe("0-1 1-0");
  });
  test("err by what they miss and what they add", () => {
    expect(errorRate([[0, 0], [1, 1]], [[0, 0], [1, 1]])).toBe(0);
    expect(errorRate([[0, 0], [1, 1]], [[0, 0], [1, 2]])).toBe(0.5);
  });
});

test("the least recently used is forgotten first", () => {
  const kept = new LeastRecent<string, number>(2);
  kept.set("a", 1);
  kept.set("b", 2);
  kept.get("a");
  kept.set("c", 3);
  expect(["a", "b", "c"].map((key) => kept.get(key))).toEqual([1, undefined, 3]);
});

test("an effect runs once for several changes, and not for what it did not read", async () => {
  const [a, b, c] = [signal(1), signal(2), signal(3)];
  const seen: number[] = [];
  const stop = effect(() => void seen.push(a.value + b.value + c.peek()));
  [a.value, b.value, c.value] = [10, 20, 30];
  await Promise.resolve();
  stop();
  a.value = 100;
  await Promise.resolve();
  expect(seen).toEqual([6, 60]);
});

test("values do not keep what has read them and ended", async () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const source = signal(0);
  const ended = (() => {
    const view = { tiles: [1, 2, 3] };
    effect(() => void (view.tiles[0] = source.value))();
    return new WeakRef(view);
  })();
  await new Promise((resolve) => setTimeout(resolve));
  collect();
  expect(ended.deref()).toBeUndefined();
  expect(source.value).toBe(0);
});

describe("doors", () => {
  const trace = (names: string[], opens: Trace["opens"] = null): Trace => ({ sites: names.map((name) => ({ name, kind: name.includes("cross") ? "cross" : "self", heads: 2 }) as Site), opens }) as Trace;
  const names = ["encoder.0.self", "decoder.0.cross", "decoder.1.cross", "decoder.2.cross"];
  test("open where Python opens: what the model aligns with, else the layer before the last, else the first", () => {
    expect(openingOf(trace(names))).toEqual({ site: 2, head: null });
    expect(openingOf(trace(["decoder.0.cross"]))).toEqual({ site: 0, head: null });
    expect(openingOf(trace(["encoder.0.self"]))).toEqual({ site: 0, head: null });
    expect(openingOf(trace(names, ["decoder.0.cross", 1]))).toEqual({ site: 1, head: 1 });
    expect(openingOf(trace(names, ["decoder.0.cross", 7]))).toEqual({ site: 1, head: null });
    expect(openingOf(trace(names, ["gone", 1]))).toEqual({ site: 2, head: null });
    expect(openingOf(trace([...names, "decoder.0.cross"], ["decoder.0.cross", null]))).toEqual({ site: 4, head: null });
  });
  test("call a site by its one name", () => {
    expect(["decoder.1.cross_attention.attention", "layer.0.attention.self", "attention", ""].map(titled)).toEqual(["decoder.1.cross_attention", "layer.0.attention.self", "attention", "attention"]);
  });
});

test("why nothing is named is said: it is hidden, not a number, 0, or too little", () => {
  const app = { say: (word: Word) => word } as unknown as App;
  const rows = [[null, null], [], [null, NaN], [0, null], [0, 0.001]];
  expect(rows.map((row) => nothing(app, row))).toEqual(["nothing", "nothing", "nothing.unknown", "nothing.zero", "nothing.small"]);
});

test("numbers are rounded, with a minus that is one", () => {
  expect([0.0633789, -1.909184, 1.23456e-7, -2e9, NaN, -Infinity].map((value) => shown(value))).toEqual(["0.06338", "−1.909", "1.23e−7", "−2.00e+9", "NaN", "−∞"]);
  expect(spoken("fa", "read.two", { query: "x", key: "y", first: shown(-1.5), second: "0.5", difference: "2" })).toContain("\u2066−1.5\u2069");
});

test("a weight below all codes is said to be less", () => {
  const smallest = decode(encode(1e-12))!;
  expect([coded(smallest), coded(smallest, 3, 6 * smallest), coded(0.25), coded(0)]).toEqual(["< 6e−8", "< 4e−7", "0.25", "0"]);
});

test("names stay on the rulers as long as they can be read, then every second, then numbers", () => {
  expect([40, 13, 10, 8, 7, 4, 3, 2, 1.9].map((zoom) => naming(zoom).every)).toEqual([1, 1, 1, 1, 2, 2, 3, 4, 0]);
  for (let zoom = 2; zoom < 64; zoom += 0.25) {
    const { every, size } = naming(zoom);
    expect(every * zoom).toBeGreaterThanOrEqual(size);
    expect(size).toBeGreaterThanOrEqual(8);
  }
});

test("a label of 5,000 letters says that there is more", () => {
  expect([...brief("あ𠀀".repeat(2500))]).toHaveLength(64);
  expect(brief("a".repeat(5000)).endsWith("a…")).toBe(true);
  expect(brief("a".repeat(64))).toBe("a".repeat(64));
});

test("every language says everything, with the same places to fill", () => {
  const places = (text: string): string[] => [...text.matchAll(/\{\w+\}/g)].map(([place]) => place).sort();
  for (const strings of [persian, russian, chinese]) {
    expect(Object.keys(strings).sort()).toEqual(Object.keys(english).sort());
    for (const [word, text] of Object.entries(english)) expect(places(strings[word as Word])).toEqual(places(text));
  }
  expect(spoken("en", "search.count", { at: 1, count: 2 })).toBe("1 of 2");
  expect(spoken("fa", "read.hidden", { query: "x", key: "ب" })).toContain("\u2068x\u2069 نمی‌تواند به ب");
  expect(preferred(["de-CH", "fa-IR"])).toBe("fa");
});

test("a graph is laid out the same way every time, neighbours near each other, inside its frame", () => {
  const chain = [[0, 1], [1, 2], [2, 3], [3, 4]] as const;
  const places = arranged(5, chain);
  expect(arranged(5, chain)).toEqual(places);
  expect(places.flat().every((at) => at >= 0 && at <= 1)).toBe(true);
  const far = (a: number, b: number): number => Math.hypot(places[a]![0] - places[b]![0], places[a]![1] - places[b]![1]);
  for (const [a, b] of chain) expect(far(a, b)).toBeLessThan(far(0, 4));
  expect(arranged(1, [[0, 0]])).toEqual([[0.5, 0.5]]);
});

test("nodes that lie on each other are moved apart, inside of a phone's frame", () => {
  const chance = new Random(3);
  const places = [...Array.from({ length: 32 }, () => [150 + 20 * chance.next(), 100 + 20 * chance.next()] as const), [160, 110], [160, 110]] as const;
  const apart = spread(places, 24, [15, 15, 335, 235]);
  expect(spread(places, 24, [15, 15, 335, 235])).toEqual(apart);
  for (const [a, one] of apart.entries()) {
    expect(one[0] >= 15 && one[0] <= 335 && one[1] >= 15 && one[1] <= 235).toBe(true);
    for (const other of apart.slice(0, a)) expect(Math.hypot(one[0] - other[0], one[1] - other[1])).toBeGreaterThan(22);
  }
  expect(spread([[0, 0], [30, 0]], 24, [0, 0, 100, 100])).toEqual([[0, 0], [30, 0]]);
});

test("settings within settings are told by their dotted names", () => {
  expect(lines({ model: { dim: 4, bias: null }, heads: [1, 2] })).toEqual([["model.dim", 4], ["heads", [1, 2]]]);
});

describe("the edges of a graph", () => {
  test("join two nodes once, with their direction and bond", () => {
    const bonds = ["double", "double", "single", "aromatic"] as const;
    expect(roads({ edges: [[0, 1, 2, 3], [1, 0, 1, 3]], bonds: [...bonds] })).toEqual([
      { source: 0, target: 1, both: true, bond: "double" },
      { source: 2, target: 1, both: false, bond: "single" },
    ]);
    expect(roads({ edges: [[0, 0], [1, 1]] })).toEqual([{ source: 0, target: 1, both: false, bond: null }]);
  });
  test("have as many strokes as their bond, beside each other", () => {
    const ys = (bond: "single" | "double" | "triple" | "aromatic" | null): number[] => strokes([0, 0], [10, 0], bond, 4).map(({ from, to }) => (expect(from[1]).toBe(to[1]), from[1]));
    expect([ys(null), ys("single"), ys("double"), ys("triple")]).toEqual([[0], [0], [-2, 2], [-4, 0, 4]]);
    expect(strokes([0, 0], [0, 10], "aromatic", 4).map(({ dashed }) => dashed)).toEqual([false, true]);
  });
  test("end in an arrow that touches the circle of the node", () => {
    const [tip, one, other] = arrowhead([0, 0], [0, 20], 5, 4);
    expect(tip).toEqual([0, 15]);
    expect([one[1], other[1], Math.abs(one[0] - other[0])]).toEqual([11, 11, 4]);
  });
  test("keep their lengths in proportion, and are not longer than they need be", () => {
    const joined = roads({ edges: [[0, 1], [1, 2]] });
    const { places, height } = toScale([[0, 0], [1, 0], [1, 0.5]], joined, 400, 300, 20, 1000);
    expect([places, height]).toEqual([[[20, 20], [380, 20], [380, 200]], 200 + 20]);
    const short = toScale([[0, 0], [1, 0], [1, 0.5]], joined, 400, 300, 20, 90).places;
    expect(short[1]![0] - short[0]![0]).toBe(90);
    expect(toScale([[0.5, 0.5]], [], 400, 300, 20, 90).places).toEqual([[200, 20]]);
  });
  test("carry the product of the weights of several layers", () => {
    const random = new Random(3);
    const layer = (): number[][] => Array.from({ length: 5 }, () => {
      const row = Array.from({ length: 5 }, () => random.next());
      const sum = row.reduce((a, b) => a + b);
      return row.map((weight) => weight / sum);
    });
    const [first, last] = [layer(), layer()];
    const { reached, carried } = journey([first, last], 2);
    for (let key = 0; key < 5; key++) expect(reached[key]).toBeCloseTo(last[2]!.reduce((sum, weight, node) => sum + weight * first[node]![key]!, 0), 12);
    expect(reached.reduce<number>((sum, share) => sum + share!, 0)).toBeCloseTo(1, 12);
    expect(Math.max(...carried.map(([, , amount]) => amount))).toBeCloseTo(Math.max(...last[2]!), 12);
    const hidden = journey([[[1, null], [0, 1]], [[0.5, 0.5], [null, 1]]], 1);
    expect(hidden).toEqual({ reached: [null, 1], carried: [[1, 1, 1]] });
    expect(ways([[0, null], [0.25, 0.75]])).toEqual([[1, 0, 0.25], [1, 1, 0.75]]);
  });
});
