import { expect, test } from "vitest";
import { decode, encode, FAINTEST, halves, HIDDEN, toHalf, ZERO } from "../src/codec";

test("a code keeps its weight within half a step", () => {
  for (let exponent = -23; exponent <= 8; exponent += 0.37) {
    const weight = 2 ** exponent;
    expect(Math.abs(Math.log2(decode(encode(weight))! / weight))).toBeLessThanOrEqual(0.5 / 2048 + 1e-12);
  }
});
test("zero, hidden, 256 or more and fainter than all are codes of their own", () => {
  expect(encode(0)).toBe(ZERO);
  expect(decode(ZERO)).toBe(0);
  expect(decode(HIDDEN)).toBeNull();
  expect([encode(256), encode(3e4)]).toEqual([0, 0]);
  expect(decode(encode(3))).toBeCloseTo(3, 2);
  expect(encode(1e-30)).toBe(FAINTEST);
});
test("half precision reads as it is defined", () => {
  const known: [number, number][] = [[0x3c00, 1], [0xc000, -2], [0x7bff, 65504], [0x0001, 2 ** -24], [0x0400, 2 ** -14], [0x3555, 0.333251953125], [0x8000, -0]];
  const read = halves(Uint16Array.from(known.map(([bits]) => bits)));
  known.forEach(([, value], at) => expect(read[at]).toBe(value));
  expect(halves(Uint16Array.of(0x7c00, 0xfc00, 0x7e00))).toEqual(Float32Array.of(Infinity, -Infinity, NaN));
});
test("every finite half survives the way there and back", () => {
  const all = Uint16Array.from({ length: 65536 }, (_, bits) => bits).filter((bits) => ((bits >> 10) & 31) !== 31);
  expect(Uint16Array.from(halves(all), toHalf)).toEqual(all);
});
