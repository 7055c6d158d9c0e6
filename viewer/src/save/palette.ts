/** Few colours for many pixels: the median cut of Heckbert 1982, over colours with five bits for each channel. */

export type Colour = readonly [number, number, number];
export interface Palette {
  list: Colour[];
  /** The place in the list for each colour of 15 bits. */
  places: Uint8Array;
}
interface Cell {
  code: number;
  count: number;
}
const CODES = 1 << 15;
const codeOf = (red: number, green: number, blue: number): number => ((red >> 3) << 10) | ((green >> 3) << 5) | (blue >> 3);
const channel = (code: number, at: number): number => (code >> (10 - 5 * at)) & 31;

/** The colours of pictures, which are added one after another. */
export class Colours {
  private readonly counts = new Float64Array(CODES);
  private readonly sums = [0, 1, 2].map(() => new Float64Array(CODES));

  add(pixels: Uint8ClampedArray): void {
    for (let at = 0; at < pixels.length; at += 4) {
      const code = codeOf(pixels[at]!, pixels[at + 1]!, pixels[at + 2]!);
      this.counts[code]! += 1;
      for (let channel = 0; channel < 3; channel++) this.sums[channel]![code]! += pixels[at + channel]!;
    }
  }

  palette(most: number): Palette {
    const boxes = [Array.from(this.counts, (count, code): Cell => ({ code, count })).filter(({ count }) => count)];
    while (boxes.length < most) {
      const widest = boxes.map(spread).reduce((best, each, at, all) => (each.cost > all[best]!.cost ? at : best), 0);
      const box = boxes[widest]!;
      if (box.length < 2) break;
      boxes.splice(widest, 1, ...halves(box, spread(box).axis));
    }
    const places = new Uint8Array(CODES);
    const list = boxes.map((box, place): Colour => {
      const count = box.reduce((sum, each) => sum + each.count, 0);
      for (const { code } of box) places[code] = place;
      const [red, green, blue] = this.sums.map((each) => Math.round(box.reduce((sum, { code }) => sum + each[code]!, 0) / count));
      return [red!, green!, blue!];
    });
    return { list, places };
  }
}

export function indexed(pixels: Uint8ClampedArray, { places }: Palette): Uint8Array {
  const out = new Uint8Array(pixels.length / 4);
  for (let at = 0; at < out.length; at++) out[at] = places[codeOf(pixels[4 * at]!, pixels[4 * at + 1]!, pixels[4 * at + 2]!)]!;
  return out;
}

/** Along which channel a box is widest, and how much is lost by keeping it whole. */
function spread(box: readonly Cell[]): { axis: number; cost: number } {
  const widths = [0, 1, 2].map((at) => {
    const values = box.map(({ code }) => channel(code, at));
    return Math.max(...values) - Math.min(...values);
  });
  const axis = widths.indexOf(Math.max(...widths));
  return { axis, cost: box.length < 2 ? -1 : widths[axis]! * Math.sqrt(box.reduce((sum, { count }) => sum + count, 0)) };
}

function halves(box: Cell[], axis: number): [Cell[], Cell[]] {
  box.sort((a, b) => channel(a.code, axis) - channel(b.code, axis));
  const half = box.reduce((sum, { count }) => sum + count, 0) / 2;
  let [at, sum] = [0, 0];
  while (at < box.length - 1 && sum + box[at]!.count <= half) sum += box[at++]!.count;
  at = Math.max(1, at);
  return [box.slice(0, at), box.slice(at)];
}
