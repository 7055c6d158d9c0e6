/** What a map draws: painted tiles of one head, or of the difference of two. */

import type { Cells } from "../app";
import type { Cached } from "../cached";
import { UNKNOWN } from "../codec";
import { differencePixels, pixels, type Look, type Theme } from "../colour";
import { cellShifts, rowShifts } from "../lift";
import { TILE, type Codes, type Level, type Pool, type TileRequest } from "../provider";

export interface Tile {
  codes: Codes;
  /** Made of some rows only: the exact one has to follow. */
  estimate: boolean;
  /** Whether a weight in it is not a number. */
  unknown: boolean;
  picture: HTMLCanvasElement;
}

export interface Layer {
  /** Changes whenever the same tile would look otherwise. */
  name: string;
  tile(level: number, row: number, column: number, signal: AbortSignal, guess: (tile: Tile) => void): Promise<Tile>;
}

function picture(colours: Uint32Array): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = TILE;
  const bytes = new Uint8ClampedArray(colours.buffer as ArrayBuffer);
  canvas.getContext("2d")!.putImageData(new ImageData(bytes, TILE, TILE), 0, 0);
  return canvas;
}

const levelOf = (cells: Cells, level: number): Level => (cells === "token" ? level : cells);

export function headLayer(provider: Cached, site: number, head: number, cells: Cells, look: Look, id = ""): Layer {
  return {
    name: [id, site, head, cells, look.scale, look.theme, look.pool].join("/"),
    async tile(level, row, column, signal, guess) {
      const request: TileRequest = { site, head, level: levelOf(cells, level), row, column, pool: look.pool };
      const shifts = async (): Promise<Float64Array> => cells === "token" ? rowShifts(await provider.counts(site, head), level, row, look.pool) : cellShifts(await provider.tile({ ...request, pool: "equal" }, signal));
      const shift = look.scale === "lift" ? await shifts() : null;
      const painted = (codes: Codes, estimate = false): Tile => ({ codes, estimate, unknown: codes.includes(UNKNOWN), picture: picture(pixels(codes, look, shift)) });
      return painted(await provider.tile(request, signal, (codes) => guess(painted(codes, true))));
    },
  };
}

export interface One {
  provider: Cached;
  site: number;
  head: number;
}

export function differenceLayer(first: One, second: One, cells: Cells, theme: Theme, pool: Pool, id: string): Layer {
  return {
    name: ["difference", id, first.site, first.head, second.site, second.head, cells, theme, pool].join("/"),
    async tile(level, row, column, signal) {
      const ask = ({ provider, site, head }: One): Promise<Codes> => provider.tile({ site, head, level: levelOf(cells, level), row, column, pool }, signal);
      const [one, other] = await Promise.all([ask(first), ask(second)]);
      return { codes: one, estimate: false, unknown: one.includes(UNKNOWN) || other.includes(UNKNOWN), picture: picture(differencePixels(one, other, theme)) };
    },
  };
}
