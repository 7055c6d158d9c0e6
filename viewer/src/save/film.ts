/** Pictures of a view as files: a drawing, pixels, or a film of an answer that is written word by word. */

import type { Theme } from "../colour";
import { h } from "../dom";
import { settled, type Telling } from "../story/telling";
import { gif, type Frame } from "./gif";
import { around, drawn, type Drawing, type Heading, type Picture } from "./picture";

/** Pixels of a file: what every browser can draw. */
const [MOST_PIXELS, LONGEST, SHARPEST] = [16e6, 8192, 2];
/** Of a film, which is sent around. */
const FILM_WIDTH = 1000;
/** Seconds of the source alone, of a word, and of everything at the end. */
const [FIRST, WORD, LAST] = [0.6, 0.9, 3];

export const svgFile = ({ svg }: Picture): Blob => new Blob([svg], { type: "image/svg+xml" });

export async function pngFile(picture: Picture): Promise<Blob> {
  const { width, height } = picture;
  const canvas = await pixels(picture, Math.min(SHARPEST, Math.sqrt(MOST_PIXELS / (width * height)), LONGEST / Math.max(width, height)));
  return new Promise((resolve, reject) => canvas.toBlob((file) => (file ? resolve(file) : reject(new Error("The browser could not make a PNG."))), "image/png"));
}

/** The source, each word with its weights, and everything. */
export async function gifFile(part: HTMLElement, heading: Heading, theme: Theme, telling: Telling): Promise<Blob> {
  const drawings: Drawing[] = [];
  for (const words of [...Array(telling.count + 1).keys(), null]) {
    await telling.show(words);
    drawings.push(drawn(part));
  }
  const whole = around(drawings.map(({ extent }) => extent));
  const canvas = h("canvas", {});
  const draw = async (drawing: Drawing): Promise<CanvasRenderingContext2D> => {
    const picture = drawing.framed(heading, theme, whole);
    await pixels(picture, Math.min(1, FILM_WIDTH / picture.width), canvas);
    return canvas.getContext("2d")!;
  };
  await draw(drawings[0]!);
  const { width, height } = canvas;
  async function* frames(): AsyncGenerator<Frame> {
    for (const [at, drawing] of drawings.entries()) {
      const context = await draw(drawing);
      const lasts = at === 0 ? FIRST : at === drawings.length - 1 ? LAST : WORD;
      yield { pixels: context.getImageData(0, 0, width, height).data, lasts };
      await settled();
    }
  }
  return new Blob([await gif(width, height, frames)], { type: "image/gif" });
}

async function pixels({ svg, width, height }: Picture, scale: number, canvas = h("canvas", {})): Promise<HTMLCanvasElement> {
  const image = new Image();
  // Pages may show data, but not every page may show blobs.
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  Object.assign(canvas, { width: Math.round(width * scale), height: Math.round(height * scale) });
  canvas.getContext("2d", { willReadFrequently: true })!.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}

/** Hands a file to the reader. */
export function download(file: Blob, name: string): void {
  const link = h("a", { href: URL.createObjectURL(file), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
