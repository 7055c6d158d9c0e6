/** An animated GIF (GIF89a, with the loop of Netscape's extension) of frames with one palette. */

import { Colours, indexed } from "./palette";

export interface Frame {
  /** RGBA, as in ImageData. All frames have the same size. */
  pixels: Uint8ClampedArray;
  /** Seconds. */
  lasts: number;
}
/** Frames that can be gone through again, so that one at a time is kept. */
export type Frames = () => AsyncIterable<Frame> | Iterable<Frame>;

/** Stands for a pixel of the frame before. */
const SAME = 255;
const BITS = 8;
const MOST_CODES = 4096;

/** Goes through the frames twice: for their colours, then to write them. */
export async function gif(width: number, height: number, frames: Frames): Promise<Uint8Array<ArrayBuffer>> {
  const all = new Colours();
  for await (const { pixels } of frames()) all.add(pixels);
  const colours = all.palette(SAME);
  const bytes: number[] = [];
  const text = (characters: string): void => void bytes.push(...[...characters].map((each) => each.charCodeAt(0)));
  const short = (...numbers: number[]): void => numbers.forEach((number) => bytes.push(number & 255, number >> 8));
  text("GIF89a");
  short(width, height);
  bytes.push(0x80 | (BITS - 1), 0, 0);
  for (let at = 0; at <= SAME; at++) bytes.push(...(colours.list[at] ?? [0, 0, 0]));
  bytes.push(0x21, 0xff, 11);
  text("NETSCAPE2.0");
  bytes.push(3, 1, 0, 0, 0);
  let before: Uint8Array | null = null;
  for await (const { pixels, lasts } of frames()) {
    const present = indexed(pixels, colours);
    const { left, top, right, bottom } = changed(present, before, width, height);
    bytes.push(0x21, 0xf9, 4, 0x05);
    short(Math.round(100 * lasts));
    bytes.push(SAME, 0, 0x2c);
    short(left, top, right - left, bottom - top);
    bytes.push(0, BITS);
    const part = new Uint8Array((right - left) * (bottom - top));
    for (let y = top, to = 0; y < bottom; y++) {
      for (let at = y * width + left; at < y * width + right; at++) part[to++] = before?.[at] === present[at] ? SAME : present[at]!;
    }
    const packed = lzw(part);
    for (let at = 0; at < packed.length; at += 255) bytes.push(Math.min(255, packed.length - at), ...packed.subarray(at, at + 255));
    bytes.push(0);
    before = present;
  }
  bytes.push(0x3b);
  return Uint8Array.from(bytes);
}

/** The smallest box with all that differs from the frame before; one pixel where nothing does. */
function changed(present: Uint8Array, before: Uint8Array | null, width: number, height: number): { left: number; top: number; right: number; bottom: number } {
  if (!before) return { left: 0, top: 0, right: width, bottom: height };
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let at = 0; at < present.length; at++) {
    if (present[at] === before[at]) continue;
    const [x, y] = [at % width, Math.floor(at / width)];
    [left, top, right, bottom] = [Math.min(left, x), Math.min(top, y), Math.max(right, x + 1), Math.max(bottom, y + 1)];
  }
  return right ? { left, top, right, bottom } : { left: 0, top: 0, right: 1, bottom: 1 };
}

/** The compression of GIF: variable codes from 9 to 12 bits, the lowest bit first (GIF89a, appendix F). */
export function lzw(indices: Uint8Array): Uint8Array {
  const [clear, end] = [1 << BITS, (1 << BITS) + 1];
  const out: number[] = [];
  let [held, count, size, next] = [0, 0, BITS + 1, end + 1];
  let known = new Map<number, number>();
  const write = (code: number): void => {
    held |= code << count;
    count += size;
    for (; count >= 8; count -= 8, held >>>= 8) out.push(held & 255);
  };
  write(clear);
  let prefix = indices[0]!;
  for (let at = 1; at < indices.length; at++) {
    const key = (prefix << BITS) | indices[at]!;
    const longer = known.get(key);
    if (longer !== undefined) {
      prefix = longer;
      continue;
    }
    write(prefix);
    prefix = indices[at]!;
    if (next === MOST_CODES) {
      write(clear);
      [known, size, next] = [new Map(), BITS + 1, end + 1];
      continue;
    }
    if (next === 1 << size) size += 1;
    known.set(key, next++);
  }
  write(prefix);
  // The reader has added one more code by now, so its codes may have become longer.
  if (next === 1 << size && size < 12) size += 1;
  write(end);
  if (count) out.push(held & 255);
  return Uint8Array.from(out);
}
