/** How heads fill a page, and the colours that each has by itself. */

import { describe, expect, test } from "vitest";
import { encode, HIDDEN, STEPS, ZERO } from "../src/codec";
import { colourAt, contrastTable, FAINTER, pixels, STRONGER } from "../src/colour";
import { APART, FRAME, GAP, packed, type Packing } from "../src/view/packing";

const PAGE = { width: 1268, height: 620, least: 52, most: 420 };
const PHONE = { width: 356, height: 500, least: 84, most: 420 };
const wide = ({ groups, columns, side }: Packing): number => groups * (columns * (side + FRAME) + (columns - 1) * GAP) + (groups - 1) * APART;

describe("tiles", () => {
  for (const [name, sizes] of [["4", [4]], ["64 in layers", Array<number>(8).fill(8)], ["144 in layers", Array<number>(12).fill(12)], ["144 in one row", [144]], ["clusters", [3, 26, 29, 6]]] as const)
    test(`of ${name} heads fill the width of a page, and never more`, () => {
      const packing = packed(sizes, PAGE);
      expect(wide(packing)).toBeLessThanOrEqual(PAGE.width);
      expect(wide(packing)).toBeGreaterThan(0.94 * PAGE.width);
    });
  test("of 64 heads are all in view, and those of 144 as large as one row of a layer allows", () => {
    expect(packed(Array<number>(8).fill(8), PAGE)).toEqual({ groups: 2, columns: 8, side: 56 });
    expect(packed(Array<number>(12).fill(12), PAGE)).toEqual({ groups: 1, columns: 12, side: 84 });
  });
  test("stand in twos or threes on a phone, and one head is no larger than it is worth", () => {
    for (const sizes of [[4], [8, 8], [12], [144]]) expect([2, 3]).toContain(packed(sizes, PHONE).columns);
    expect(packed([1], { ...PAGE, height: 2000 }).side).toBe(420);
    expect(packed([], PAGE).side).toBeGreaterThan(0);
    expect(packed([5], { ...PAGE, width: 40 })).toMatchObject({ groups: 1, columns: 1 });
  });
});

describe("a head by itself", () => {
  const side = 8;
  const none = new Float64Array(side);
  const of = (weights: number[]): Uint16Array => Uint16Array.from({ length: side * side }, (_, at) => encode(weights[at % weights.length]!));
  const drawn = (codes: Uint16Array, shifts = none): Uint32Array => pixels(codes, { scale: "log", theme: "light", pool: "peak" }, shifts, side, contrastTable(codes, "light", shifts, side));
  test("looks the same whatever all of its weights are multiplied with, and so it does by other counts of keys", () => {
    const weights = Array.from({ length: 64 }, (_, at) => 2 ** -(1 + at / 8));
    const codes = of(weights);
    const shifted = Float64Array.from(none, () => 3 * STEPS);
    expect(drawn(of(weights.map((weight) => weight / 8)))).toEqual(drawn(codes));
    expect(drawn(codes, shifted)).toEqual(drawn(codes));
  });
  test("runs from the faintest to the strongest but for a few cells", () => {
    const codes = of(Array.from({ length: 64 }, (_, at) => 2 ** -(1 + at / 8)));
    const colours = drawn(codes);
    const ends = [Math.ceil(STRONGER * 63), Math.floor((1 - FAINTER) * 63)] as const;
    expect(colours[0]).toBe(colourAt("log", "light", 1));
    expect(colours[63]).toBe(colourAt("log", "light", 0));
    expect(colours[ends[1]]).not.toBe(colours[ends[0]]);
    expect(new Set(colours).size).toBeGreaterThan(40);
  });
  test("that is flat stays flat: less than a factor of two is not stretched", () => {
    const colours = new Set(drawn(of([0.1, 0.1001])));
    expect(Math.max(...[...colours].map((colour) => Math.abs((colour & 255) - (colourAt("log", "light", 0.5) & 255))))).toBeLessThan(6);
  });
  test("leaves hidden cells and zeros what they are", () => {
    const codes = of([0.5, 0.25]);
    [codes[0], codes[1]] = [HIDDEN, ZERO];
    const colours = drawn(codes);
    expect([colours[0], colours[1]]).toEqual([0, 0xffffffff]);
    expect(drawn(Uint16Array.from({ length: 64 }, () => HIDDEN))).toEqual(new Uint32Array(64));
  });
});
