/** Codes as colours: one table per scale and theme, so that a tile is recoloured without asking anybody. */

import { decode, FAINTEST, HIDDEN, numberOf, STEPS, UNKNOWN, ZERO } from "./codec";
import { TILE, type Codes, type Pool } from "./provider";

export type Scale = "log" | "lift" | "linear";
export type Theme = "light" | "dark";
/** A scale of colours for all heads, or each head by itself. */
export type Tint = Scale | "contrast";
export const SCALES: readonly Scale[] = ["log", "lift", "linear"];

/** Stops of even lightness: lightness alone carries the value, so the scales survive colour blindness and grey print. */
const SEQUENTIAL: Record<Theme, string> = {
  light: "f7fafc d2e6f5 a5cfee 74b3e2 4b95d0 2f77b8 215a97 1b3f70 182544",
  dark: "1e2230 173a5c 005682 00748f 009191 2fad86 84c67f c6dd98 fbf6d8",
};
/** Blue and orange differ for every common kind of colour blindness; the middle is neutral. */
const DIVERGING: Record<Theme, string> = {
  light: "123a6b 2f6db0 7fb0dd c9dff0 f4f3ef f8d5ae ee9a4d c45f0e 7a3403",
  dark: "a8d4ff 5fa5e6 2f6ba6 23405f 24262c 5c3d1f a2601c e8953a ffd9a3",
};
export const INK: Record<Theme, { zero: string; unknown: string; line: string; hidden: string; hatch: string; waiting: string; cursor: string; link: string; gold: string; text: string; quiet: string; grid: string; paper: string }> = {
  light: { zero: "ffffff", unknown: "c2007a", line: "215a97", hidden: "eceae6", hatch: "cfcbc3", waiting: "f1f2f4", cursor: "d55e00", link: "d55e00", gold: "00735c", text: "1a1d24", quiet: "5a6270", grid: "d5dae1", paper: "ffffff" },
  dark: { zero: "0c0d11", unknown: "ff6ec0", line: "8cc4f2", hidden: "2a2b2f", hatch: "45464c", waiting: "191b21", cursor: "ff9d3c", link: "ff9d3c", gold: "3fc4a5", text: "e8eaf0", quiet: "a2a9b8", grid: "343a48", paper: "14161c" },
};

/** Colours of heads that are drawn together: apart for every kind of colour blindness, and from the paper. */
export const HEADS: Record<Theme, readonly string[]> = {
  light: "0672b8 e36902 8b957a b13e7b 7a5b0b 399ecf 5b2b85 1c1e22".split(" "),
  dark: "a9c2eb ff8b1f 34c281 cc6bb3 f8e022 3a70ef b58aff daeffa".split(" "),
};

export const css = (colour: string): string => `#${colour}`;

/** A colour between stops, `t` from 0 to 1, as little-endian RGBA. */
function between(stops: readonly string[], t: number): number {
  const at = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const low = Math.min(Math.floor(at), stops.length - 2);
  const mixed = [0, 2, 4].map((c) => {
    const [a, b] = [stops[low]!, stops[low + 1]!].map((stop) => parseInt(stop.slice(c, c + 2), 16)) as [number, number];
    return Math.round(a + (b - a) * (at - low));
  }) as [number, number, number];
  return rgba(...mixed);
}

const rgba = (red: number, green: number, blue: number): number => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
const ofHex = (hex: string): number => rgba(...([0, 2, 4].map((c) => parseInt(hex.slice(c, c + 2), 16)) as [number, number, number]));

/** How strong a weight is drawn, 0 to 1; of the scale of lift, how strong a lift. */
export function strength(scale: Scale, weight: number): number {
  if (scale === "linear") return weight;
  if (scale === "log") return 1 + Math.log10(weight) / LOG_DECADES;
  return 0.5 + Math.log2(weight) / (2 * LIFT_OCTAVES);
}
export const LOG_DECADES = 6;
export const LIFT_OCTAVES = 6;

export function colourAt(scale: Scale, theme: Theme, t: number): number {
  return between((scale === "lift" ? DIVERGING : SEQUENTIAL)[theme].split(" "), t);
}
/** The colour of a cell: of a weight, or a lift, of nothing, of what is hidden and of what is not a number. */
export function cellColour(scale: Scale, theme: Theme, value: number | null): string {
  const ink = INK[theme];
  if (value === null) return css(ink.hidden);
  if (Number.isNaN(value)) return css(ink.unknown);
  return value === 0 ? css(ink.zero) : cssAt(scale, theme, strength(scale, value));
}
export const cssAt = (scale: Scale, theme: Theme, t: number): string => {
  const colour = colourAt(scale, theme, t);
  return `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`;
};

/** Lift is the weight times a row's own number: a shift of its code. The table begins `MARGIN` codes below 0. */
const MARGIN = 20 * STEPS;
const tables = new Map<string, Uint32Array>();

export function table(scale: Scale, theme: Theme): Uint32Array {
  const name = `${scale} ${theme}`;
  let colours = tables.get(name);
  if (!colours) {
    colours = new Uint32Array(65536 + MARGIN);
    // Neighbouring codes differ by 0.03 %: a colour each 16 of them is exact to the eye and 16 times as quick.
    for (let index = 0; index < FAINTEST + 1 + MARGIN; index += 16) {
      colours.fill(colourAt(scale, theme, strength(scale, numberOf(index - MARGIN))), index, index + 16);
    }
    tables.set(name, colours);
  }
  return colours;
}

/** The shares of a head's cells that are fainter and stronger than the ends of its own contrast. */
export const [FAINTER, STRONGER] = [0.05, 0.005];

/** A head by itself: colours run evenly over its lifts' logarithms, from the faintest to the strongest but for a few cells. */
export function contrastTable(codes: Codes, theme: Theme, shifts: Float64Array, side: number): Uint32Array {
  const lifts = Array.from(codes.entries()).flatMap(([at, code]) => (code <= FAINTEST ? [code - shifts[Math.floor(at / side)]!] : [])).sort((a, b) => a - b);
  const at = (share: number): number => lifts[Math.round(share * (lifts.length - 1))] ?? 0;
  const middle = (at(STRONGER) + at(1 - FAINTER)) / 2;
  // Less than a factor of two is nothing that anybody should see.
  const reach = Math.max(STEPS, at(1 - FAINTER) - at(STRONGER)) / 2;
  const colours = new Uint32Array(65536 + MARGIN);
  for (let index = 0; index < FAINTEST + 1 + MARGIN; index += 16) colours.fill(colourAt("log", theme, 0.5 - (index - MARGIN - middle) / (2 * reach)), index, index + 16);
  return colours;
}

export interface Look {
  scale: Scale;
  theme: Theme;
  pool: Pool;
}

/** The pixels of a tile. Hidden cells stay transparent: the hatching behind them shows. Shifts are one a row or a cell. */
export function pixels(codes: Codes, look: Look, shifts: Float64Array | null = null, side = TILE, colours = table(look.scale, look.theme)): Uint32Array {
  const [zero, unknown] = [ofHex(INK[look.theme].zero), ofHex(INK[look.theme].unknown)];
  const each = shifts !== null && shifts.length > side;
  const out = new Uint32Array(side * side);
  for (let r = 0; r < side; r++) {
    let shift = MARGIN - Math.round(shifts && !each ? shifts[r]! : 0);
    for (let at = r * side, end = at + side; at < end; at++) {
      const code = codes[at]!;
      if (code === HIDDEN) continue;
      if (each) shift = MARGIN - Math.round(shifts[at]!);
      out[at] = code === ZERO ? zero : code === UNKNOWN ? unknown : colours[Math.min(Math.max(code + shift, 0), FAINTEST + MARGIN)]!;
    }
  }
  return out;
}

/** The pixels of a difference of two tiles: blue where the second weighs more, orange where the first does. */
export function differencePixels(first: Codes, second: Codes, theme: Theme): Uint32Array {
  const stops = DIVERGING[theme].split(" ");
  const unknown = ofHex(INK[theme].unknown);
  const colours = Uint32Array.from({ length: 513 }, (_, at) => between(stops, at / 512));
  return Uint32Array.from(first, (code, at) => {
    const other = second[at]!;
    if (code === HIDDEN && other === HIDDEN) return 0;
    const apart = (decode(code) ?? 0) - (decode(other) ?? 0);
    return Number.isNaN(apart) ? unknown : colours[256 + Math.round(256 * bent(apart))]!;
  });
}

/** Differences are drawn by their square root, so that those of a hundredth are still seen. */
export const bent = (difference: number): number => Math.sign(difference) * Math.sqrt(Math.min(1, Math.abs(difference)));
export const differenceColour = (theme: Theme, t: number): string => {
  const colour = between(DIVERGING[theme].split(" "), 0.5 + t / 2);
  return `rgb(${colour & 255},${(colour >> 8) & 255},${(colour >> 16) & 255})`;
};

/** Black or white, whichever is read better on a colour. */
export function readableOn(scale: Scale, theme: Theme, t: number): string {
  if (Number.isNaN(t)) return theme === "light" ? "#fff" : "#000";
  const colour = colourAt(scale, theme, t);
  const [r, g, b] = [colour & 255, (colour >> 8) & 255, (colour >> 16) & 255].map((c) => ((c / 255 + 0.055) / 1.055) ** 2.4) as [number, number, number];
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.18 ? "#000" : "#fff";
}
