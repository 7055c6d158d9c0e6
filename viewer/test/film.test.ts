/** Films and palettes: what is written is what was given. */

import { expect, test } from "vitest";
import { paint } from "../src/save/paint";
import { gif, lzw, type Frame } from "../src/save/gif";
import { Colours, indexed, type Palette } from "../src/save/palette";
import { Random } from "./case";

/** A reader of the compression, as the specification tells it: it knows nothing of the writer. */
function unpacked(bytes: Uint8Array): number[] {
  let [table, size, bit]: [number[][], number, number] = [[], 9, 0];
  const begin = (): void => void ([table, size] = [[...Array.from({ length: 256 }, (_, at) => [at]), [], []], 9]);
  const read = (): number => {
    let code = 0;
    for (let at = 0; at < size; at++, bit++) code |= ((bytes[bit >> 3]! >> (bit & 7)) & 1) << at;
    return code;
  };
  const out: number[] = [];
  let before: number[] | null = null;
  for (;;) {
    const code = read();
    if (code === 257) return out;
    if (code === 256) {
      begin();
      before = null;
      continue;
    }
    if (code > table.length || (code === table.length && !before)) throw new Error(`code ${code} of ${table.length}`);
    const entry: number[] = code < table.length ? table[code]! : [...before!, before![0]!];
    if (before && table.length < 4096) table.push([...before, entry[0]!]);
    if (table.length === 1 << size && size < 12) size += 1;
    out.push(...entry);
    before = entry;
  }
}

test("what is compressed is read again, at every length of codes and beyond the table", () => {
  const random = new Random(5);
  for (const [length, values] of [[1, 1], [2, 1], [253, 256], [254, 256], [255, 256], [256, 256], [257, 256], [766, 256], [767, 256], [768, 256], [769, 256], [9000, 256], [30000, 3], [3836, 256], [3837, 256], [3838, 256], [3839, 256], [3840, 256], [3841, 256]] as const) {
    const indices = Uint8Array.from({ length }, () => Math.floor(Math.abs(random.next()) * 1e6) % values);
    expect(unpacked(lzw(indices))).toEqual([...indices]);
  }
});

const palette = (...pictures: Uint8ClampedArray[]): Palette => {
  const colours = new Colours();
  for (const each of pictures) colours.add(each);
  return colours.palette(255);
};

const filled = (count: number, ...colour: [number, number, number]): number[] => Array.from({ length: count }, () => [...colour, 255]).flat();

test("few colours are kept exactly, and many by their likes", () => {
  const few = Uint8ClampedArray.from([...filled(5, 255, 255, 255), ...filled(3, 33, 90, 151), ...filled(1, 0, 0, 0)]);
  const exact = palette(few);
  expect([...indexed(few, exact)].map((at) => exact.list[at])).toEqual([...Array(5).fill([255, 255, 255]), ...Array(3).fill([33, 90, 151]), [0, 0, 0]]);
  const many = Uint8ClampedArray.from(Array.from({ length: 4096 }, (_, at) => [(at & 15) * 17, ((at >> 4) & 15) * 17, (at >> 8) * 17, 255]).flat());
  const near = palette(many.subarray(0, 8192), many.subarray(8192));
  expect(near.list.length).toBe(255);
  const errors = [...indexed(many, near)].map((place, at) => Math.hypot(...near.list[place]!.map((value, channel) => value - many[4 * at + channel]!)));
  expect(Math.max(...errors)).toBeLessThan(60);
  expect(errors.reduce((sum, error) => sum + error, 0) / errors.length).toBeLessThan(25);
});

test("a frame holds only what has changed", async () => {
  const [width, height] = [40, 30];
  const still = Uint8ClampedArray.from(filled(width * height, 250, 250, 250));
  const moved = still.slice();
  for (let x = 7; x < 11; x++) for (let y = 20; y < 22; y++) moved.set([0, 0, 0, 255], 4 * (y * width + x));
  const frames: Frame[] = [{ pixels: still, lasts: 0.5 }, { pixels: moved, lasts: 0.9 }, { pixels: moved, lasts: 3 }];
  const bytes = await gif(width, height, () => frames);
  const text = String.fromCharCode(...bytes);
  expect(text.startsWith("GIF89a")).toBe(true);
  expect(bytes.at(-1)).toBe(0x3b);
  // Each image has a control block with its duration before it, and a box.
  const blocks = [...text.matchAll(/\x21\xf9\x04\x05([^]{2})\xff\x00\x2c([^]{8})/g)].map(([, lasts, box]) => [lasts!, box!].map((each) => [...each].map((letter) => letter.charCodeAt(0))));
  expect(blocks.map(([lasts]) => lasts![0]! + 256 * lasts![1]!)).toEqual([50, 90, 300]);
  expect(blocks.map(([, box]) => [0, 2, 4, 6].map((at) => box![at]!))).toEqual([[0, 0, 40, 30], [7, 20, 4, 2], [0, 0, 1, 1]]);
});

test("colours are written as every program reads them", () => {
  expect(paint("rgb(33, 90, 151)")).toEqual({ fill: "#215a97" });
  expect(paint("rgba(0, 0, 0, 0)")).toEqual({ fill: "#000000", "fill-opacity": 0 });
  expect(paint("rgb(255 0 0 / 0.5)")).toEqual({ fill: "#ff0000", "fill-opacity": 0.5 });
  expect(paint("color(srgb 0.129412 0.352941 0.592157 / 0.144)")).toEqual({ fill: "#215a97", "fill-opacity": 0.144 });
});
