/** The map: tiles under a camera, token rulers along it, and the cursor. */

import type { App } from "../app";
import { clamped, fitted, levelFor, tilesIn, toPixel, toUnit, zoomed, type Camera, type Extent, type Frame, type Place } from "../camera";
import { css, INK } from "../colour";
import { h } from "../dom";
import { TILE, type Span } from "../provider";
import { contextOf, drawnBy } from "../save/recorder";
import { effect, signal } from "../signal";
import { Gestures } from "./gesture";
import type { Layer, Tile } from "./layer";
import { drawRulers, LEFT, TOP } from "./ruler";
import { Edge, streams } from "./reach";
import { Tiles } from "./tiles";
import { tokenOf, unitOf, unitSpan } from "./units";

/** So many tiles of a frame are asked for; semantic levels have no coarser ones to fall back on. */
const MOST_TILES = 80;

export interface Hover {
  query: number;
  key: number;
  /** The weight or share of the pooled cell, by its code. */
  code: number | undefined;
  /** Whether that is a guess from some rows. */
  estimate?: boolean | undefined;
  level: number;
}

export class MapView {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  onhover: (hover: Hover | null) => unknown = () => undefined;
  onchosen: () => unknown = () => undefined;
  /** What is not there yet: tiles, or the exact ones of estimates that are shown. */
  onwaiting: (waiting: boolean, estimated: boolean) => void = () => undefined;
  /** Told once something is drawn: whoever wants more of the provider waits for that. */
  readonly begun: Promise<void>;
  private readonly tiles: Tiles;
  frame: Frame = { width: 1, height: 1 };
  /** The level that is drawn; null until the map has its size. */
  readonly drawnLevel = signal<number | null>(null);
  private ratio = 1;
  private drawn = 0;
  private readonly stops: (() => void)[] = [];

  constructor(
    private readonly app: App,
    makeLayer: () => Layer,
    label: string,
  ) {
    this.canvas = h("canvas", { className: "map", tabIndex: 0, role: "application", "aria-label": label });
    this.element = h("div", { className: "mapbox" }, this.canvas);
    drawnBy(this.canvas, () => this.draw());
    const watch = new ResizeObserver(() => this.resize());
    watch.observe(this.element);
    this.stops.push(() => watch.disconnect());
    const failed = (error: unknown): void => void (app.said.value = app.failure(error));
    let begin: () => void = () => undefined;
    this.begun = new Promise((resolve) => (begin = resolve));
    const changed = (): void => {
      begin();
      this.schedule();
    };
    this.tiles = new Tiles(changed, (is, estimated) => this.onwaiting(is, estimated), failed);
    new Gestures(app, this);
    this.stops.push(
      effect(() => {
        void app.printing.value;
        if (this.element.isConnected) this.resize();
      }),
      effect(() => {
        this.tiles.use(makeLayer());
        void [this.app.camera.value, this.app.cursor.value, this.app.brush.value, this.app.found.value, this.app.theme.value, this.app.language.value];
        this.schedule();
      }),
    );
  }

  close(): void {
    this.tiles.callOff();
    for (const stop of this.stops) stop();
  }

  get extent(): Extent {
    return this.app.extent;
  }
  get camera(): Camera {
    return this.app.camera.value ?? fitted(this.extent, this.frame);
  }
  look(camera: Camera): void {
    this.app.camera.value = clamped(camera, this.extent, this.frame);
  }
  fit(): void {
    this.app.camera.value = null;
  }
  zoom(factor: number, px = this.frame.width / 2, py = this.frame.height / 2): void {
    this.look(zoomed(this.camera, factor, px, py, this.frame));
  }

  /** Brings a token pair into view, near enough to be read. */
  show(query: number, key: number, closest = 16): void {
    const camera = this.camera;
    this.look({ x: unitOf(this.app, "key", key) + 0.5, y: unitOf(this.app, "query", query) + 0.5, zoom: Math.max(camera.zoom, closest) });
  }

  private resize(): void {
    const [width, height] = [this.element.clientWidth, this.element.clientHeight];
    if (width < LEFT + 8 || height < TOP + 8) return;
    this.ratio = devicePixelRatio || 1;
    this.frame = { width: width - LEFT, height: height - TOP };
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    // Exactly as large as its pixels: a box with a border or half a pixel would stretch them, and blur cells and labels.
    this.canvas.style.width = `${this.canvas.width / this.ratio}px`;
    this.canvas.style.height = `${this.canvas.height / this.ratio}px`;
    this.schedule();
  }

  private get context(): CanvasRenderingContext2D {
    return contextOf(this.canvas);
  }

  private schedule(): void {
    // Paper does not wait for the next frame.
    if (this.app.printing.peek()) this.draw();
    else if (!this.drawn) this.drawn = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.drawn = 0;
    if (!this.tiles.layer || this.frame.width <= 1) return;
    this.drawnLevel.value = this.level;
    const { context, frame, ratio } = this;
    const camera = this.camera;
    const ink = INK[this.app.theme.value];
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = css(ink.paper);
    context.fillRect(0, 0, LEFT + frame.width, TOP + frame.height);
    context.save();
    context.beginPath();
    context.rect(LEFT, TOP, frame.width, frame.height);
    context.clip();
    const { rows, columns } = this.extent;
    const [left, top] = toPixel(camera, frame, 0, 0);
    const [right, bottom] = toPixel(camera, frame, columns, rows);
    const map = [this.snap(left + LEFT), this.snap(top + TOP), this.snap(right + LEFT), this.snap(bottom + TOP)] as const;
    context.beginPath();
    context.rect(map[0], map[1], map[2] - map[0], map[3] - map[1]);
    context.clip();
    context.fillStyle = css(ink.waiting);
    context.fillRect(LEFT, TOP, frame.width, frame.height);
    this.drawTiles(camera);
    this.drawMarks(camera);
    context.restore();
    const edge = [Math.max(map[0], LEFT), Math.max(map[1], TOP)] as const;
    context.strokeStyle = css(ink.grid);
    context.lineWidth = 1;
    const [x, y] = edge;
    context.strokeRect(x - 0.5, y - 0.5, Math.min(map[2], LEFT + frame.width) - x + 1, Math.min(map[3], TOP + frame.height) - y + 1);
    drawRulers(context, this.app, { camera, frame, extent: this.extent, edge });
  }

  private snap(value: number): number {
    return Math.round(value * this.ratio) / this.ratio;
  }

  private drawTiles(camera: Camera): void {
    const places = tilesIn(camera, this.extent, this.frame, this.level);
    if (places.length > MOST_TILES) {
      this.tiles.callOff();
      this.app.said.value = this.app.say("zoomin");
      return;
    }
    const hatch = this.hatching();
    const edge = streams(this.app) ? new Edge() : null;
    for (const place of places) {
      const tile = this.tiles.get(place);
      if (tile) edge?.add(tile.codes, place.row, place.column);
      if (tile?.unknown) this.app.unknown.value = true;
      if (tile) this.blit(tile, place, camera, hatch);
      else this.drawCoarser(place, camera, hatch);
    }
    if (edge) this.drawReach(edge, camera);
    this.tiles.want(places);
  }

  /** The frame itself as a dashed diagonal, and the edge of what it may see: between them lies its look-ahead. */
  private drawReach(edge: Edge, camera: Camera): void {
    const { context, frame } = this;
    const ink = INK[this.app.theme.value];
    const size = 2 ** this.level;
    const { rows, columns } = this.extent;
    const at = (column: number, row: number): [number, number] => {
      const [x, y] = toPixel(camera, frame, Math.min(column * size, columns), Math.min(row * size, rows));
      return [x + LEFT, y + TOP];
    };
    context.lineWidth = 2;
    context.strokeStyle = css(ink.link);
    context.beginPath();
    for (const { from, to, end } of edge.runs()) {
      context.lineTo(...at(end, from));
      context.lineTo(...at(end, to));
    }
    context.stroke();
    context.lineWidth = 1.5;
    context.strokeStyle = css(ink.text);
    context.setLineDash([5, 4]);
    context.beginPath();
    context.moveTo(...at(0, 0));
    context.lineTo(...at(rows / size, rows / size));
    context.stroke();
    context.setLineDash([]);
  }

  get level(): number {
    return this.app.cells.value === "token" ? levelFor(this.camera.zoom, this.extent) : 0;
  }

  /** Until a tile is there, its part of a coarser one. */
  private drawCoarser(place: Place, camera: Camera, hatch: CanvasPattern): void {
    for (let up = 1; up <= 8; up++) {
      const coarser = { level: place.level + up, row: place.row >> up, column: place.column >> up };
      const tile = this.tiles.get(coarser);
      if (!tile) continue;
      const size = TILE >> up;
      const from = [(place.column & ((1 << up) - 1)) * size, (place.row & ((1 << up) - 1)) * size] as const;
      return this.blit(tile, place, camera, hatch, { x: from[0], y: from[1], size });
    }
  }

  private blit({ picture }: Tile, { level, row, column }: Place, camera: Camera, hatch: CanvasPattern, part = { x: 0, y: 0, size: TILE }): void {
    const size = TILE * 2 ** level;
    const [x0, y0] = toPixel(camera, this.frame, column * size, row * size);
    const [x1, y1] = toPixel(camera, this.frame, (column + 1) * size, (row + 1) * size);
    const [left, top, right, bottom] = [this.snap(x0 + LEFT), this.snap(y0 + TOP), this.snap(x1 + LEFT), this.snap(y1 + TOP)];
    this.context.fillStyle = hatch;
    this.context.fillRect(left, top, right - left, bottom - top);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(picture, part.x, part.y, part.size, part.size, left, top, right - left, bottom - top);
  }

  private hatching(): CanvasPattern {
    const ink = INK[this.app.theme.value];
    const swatch = h("canvas", { width: 6, height: 6 });
    const brush = swatch.getContext("2d")!;
    brush.fillStyle = css(ink.hidden);
    brush.fillRect(0, 0, 6, 6);
    brush.strokeStyle = css(ink.hatch);
    brush.lineWidth = 1;
    brush.beginPath();
    for (const shift of [-6, 0, 6]) {
      brush.moveTo(shift, 6);
      brush.lineTo(shift + 6, 0);
    }
    brush.stroke();
    return this.context.createPattern(swatch, "repeat")!;
  }

  private drawMarks(camera: Camera): void {
    const { context } = this;
    const ink = INK[this.app.theme.value];
    const box = (columns: Span, rows: Span, width: number, colour: string): void => {
      const [x0, y0] = toPixel(camera, this.frame, columns[0], rows[0]);
      const [x1, y1] = toPixel(camera, this.frame, columns[1], rows[1]);
      const grow = Math.max(0, 5 - (x1 - x0)) / 2;
      context.strokeStyle = css(colour);
      context.lineWidth = width;
      context.strokeRect(x0 + LEFT - grow, y0 + TOP - grow, x1 - x0 + 2 * grow, y1 - y0 + 2 * grow);
    };
    const brush = this.app.brush.value;
    if (brush) {
      context.setLineDash([5, 4]);
      box(unitSpan(this.app, "key", brush.columns), unitSpan(this.app, "query", brush.rows), 1.5, ink.text);
      context.setLineDash([]);
    }
    const cursor = this.app.cursor.value;
    if (cursor) {
      const [row, column] = [unitOf(this.app, "query", cursor.query), unitOf(this.app, "key", cursor.key)];
      box([column, column + 1], [row, row + 1], 2, ink.cursor);
    }
  }

  /** What lies under a pointer. */
  at(event: { clientX: number; clientY: number }): { px: number; py: number; row: number; column: number; inside: boolean } {
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left - LEFT, event.clientY - box.top - TOP];
    const [x, y] = toUnit(this.camera, this.frame, px, py);
    const { rows, columns } = this.extent;
    const inside = px >= 0 && py >= 0 && x >= 0 && y >= 0 && x < columns && y < rows;
    return { px, py, row: Math.floor(y), column: Math.floor(x), inside };
  }

  /** What a cell is, once it is known how near it is looked at. */
  hoverAt(row: number, column: number): Hover | null {
    const level = this.drawnLevel.value;
    if (level === null) return null;
    const [r, c] = [row >> level, column >> level];
    const tile = this.tiles.get({ level, row: Math.floor(r / TILE), column: Math.floor(c / TILE) });
    return { query: tokenOf(this.app, "query", row), key: tokenOf(this.app, "key", column), code: tile?.codes[(r % TILE) * TILE + (c % TILE)], estimate: tile?.estimate, level };
  }
}
