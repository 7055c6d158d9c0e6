/** Colours for every eye: lightness carries the value, and what is opposite stays apart. */

import { describe, expect, test } from "vitest";
import { colourAt, HEADS, INK, readableOn, type Theme } from "../src/colour";

type Rgb = [number, number, number];
const THEMES: Theme[] = ["light", "dark"];

/** Dichromats after Machado, Oliveira and Fernandes 2009, on linear light. */
const EYES: Record<string, [Rgb, Rgb, Rgb]> = {
  everybody: [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
  "no red cones": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
  "no green cones": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
  "no blue cones": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
};

const light = (colour: number): Rgb => [0, 8, 16].map((shift) => (((colour >> shift) & 255) / 255 + 0.055) / 1.055).map((part) => part ** 2.4) as Rgb;
const seen = (eye: string, colour: number): Rgb => {
  const [r, g, b] = light(colour);
  return EYES[eye]!.map(([x, y, z]) => Math.max(0, x * r + y * g + z * b)) as Rgb;
};
const luminance = ([r, g, b]: Rgb): number => 0.2126 * r + 0.7152 * g + 0.0722 * b;
/** Distance in a space of even steps (Oklab), where 0.02 is barely seen. */
const oklab = ([r, g, b]: Rgb): Rgb => {
  const [l, m, s] = [0.4122 * r + 0.5363 * g + 0.0514 * b, 0.2119 * r + 0.6807 * g + 0.1074 * b, 0.0883 * r + 0.2817 * g + 0.63 * b].map(Math.cbrt) as Rgb;
  return [0.2105 * l + 0.7936 * m - 0.0041 * s, 1.978 * l - 2.4286 * m + 0.4506 * s, 0.0259 * l + 0.7828 * m - 0.8087 * s];
};
const apart = (one: Rgb, other: Rgb): number => Math.hypot(...oklab(one).map((part, at) => part - oklab(other)[at]!));

describe.each(Object.keys(EYES))("for %s", (eye) => {
  test.each(THEMES)("more weight is darker on light paper and lighter on dark, step by step (%s)", (theme) => {
    const steps = Array.from({ length: 33 }, (_, n) => luminance(seen(eye, colourAt("log", theme, n / 32))));
    const sign = theme === "light" ? -1 : 1;
    for (let n = 1; n < steps.length; n++) expect(sign * (steps[n]! - steps[n - 1]!)).toBeGreaterThan(0);
  });
  test.each(THEMES)("more than an equal share and less are never one colour (%s)", (theme) => {
    for (const far of [0.125, 0.25, 0.5]) expect(apart(seen(eye, colourAt("lift", theme, 0.5 - far)), seen(eye, colourAt("lift", theme, 0.5 + far)))).toBeGreaterThan(0.06);
  });
});

const written = (hex: string): number => parseInt(hex.slice(4, 6) + hex.slice(2, 4) + hex.slice(0, 2), 16);
describe.each(THEMES)("heads that are drawn together (%s)", (theme) => {
  test.each(Object.keys(EYES))("have colours that are far from each other for %s", (eye) => {
    const colours = HEADS[theme].map((hex) => seen(eye, written(hex)));
    expect(colours).toHaveLength(8);
    colours.forEach((one, at) => colours.slice(at + 1).forEach((other) => expect(apart(one, other)).toBeGreaterThan(0.1)));
  });
  test("and from the paper", () => {
    const paper = luminance(light(written(INK[theme].paper)));
    for (const hex of HEADS[theme]) {
      const ink = luminance(light(written(hex)));
      expect((Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05)).toBeGreaterThan(3);
    }
  });
});

test("words on a weight are read on every colour", () => {
  for (const theme of THEMES)
    for (const scale of ["log", "lift"] as const)
      for (let n = 0; n <= 64; n++) {
        const ground = luminance(light(colourAt(scale, theme, n / 64)));
        const ink = readableOn(scale, theme, n / 64) === "#000" ? 0 : 1;
        const contrast = (Math.max(ground, ink) + 0.05) / (Math.min(ground, ink) + 0.05);
        expect(contrast).toBeGreaterThan(4.5);
      }
});
