/** The map: tiles under a camera, token rulers along it, and the cursor. */

import { calledOff, type App, type Brush } from "../app";
import { clamped, fitted, levelFor, tickStep, tilesIn, toPixel, toUnit, zoomed, type Camera, type Extent, type Frame, type Place } from "../camera";
import { css, INK } from "../colour";
import { h } from "../dom";
import { direction } from "../label";
import type { Semantic, Span } from "../provider";
import { TILE } from "../provider";
import { LeastRecent } from "../recent";
import { effect } from "../signal";
import type { Layer, Tile } from "./layer";

const LEFT = 112;
const TOP = 96;
const FONT = '12px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';
/** So many tiles of a frame are asked for; semantic levels have no coarser ones to fall back on. */
const MOST_TILES = 80;

export interface Hover {
  query: number;
  key: number;
  /** The weight or share of the pooled cell, by its code. */
  code: number | undefined;
  level: number;
}

export class MapView {
  readonly element: HTMLElement;
  readonly canvas: HTMLCanvasElement;
  onhover: (hover: Hover | null) => unknown = () => undefined;
  onchosen: () => unknown = () => undefined;
  /** What is not there yet: tiles, or the exact ones of estimates that are shown. */
  onwaiting: (waiting: boolean, estimated: boolean) => void = () => undefined;
  private readonly context: CanvasRenderingContext2D;
  private readonly tiles = new LeastRecent<string, Tile>(192);
  private readonly pending = new Map<string, AbortController>();
  private frame: Frame = { width: 1, height: 1 };
  private ratio = 1;
  private layer: Layer | null = null;
  private drawn = 0;
  /** Where rulers end: the frame, or the map where it is smaller. */
  private edge: [number, number] = [LEFT, TOP];
  private hovered: { x: number; y: number } | null = null;
  private anchor: { query: number; key: number } | null = null;
  private readonly stops: (() => void)[] = [];

  constructor(
    private readonly app: App,
    private readonly makeLayer: () => Layer,
    label: string,
  ) {
    this.canvas = h("canvas", { className: "map", tabIndex: 0, role: "application", "aria-label": label });
    this.element = h("div", { className: "mapbox" }, this.canvas);
    this.context = this.canvas.getContext("2d")!;
    const watch = new ResizeObserver(() => this.resize());
    watch.observe(this.element);
    this.stops.push(() => watch.disconnect());
    this.listen();
    this.stops.push(
      effect(() => {
        const layer = this.makeLayer();
        if (layer.name !== this.layer?.name) this.callOff();
        this.layer = layer;
        void [this.app.camera.value, this.app.cursor.value, this.app.brush.value, this.app.found.value, this.app.theme.value, this.app.language.value];
        this.schedule();
      }),
    );
  }

  close(): void {
    this.callOff();
    for (const stop of this.stops) stop();
  }

  private get extent(): Extent {
    return this.app.extent;
  }
  private get camera(): Camera {
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
    this.look({ x: this.unitOf("key", key) + 0.5, y: this.unitOf("query", query) + 0.5, zoom: Math.max(camera.zoom, closest) });
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

  private schedule(): void {
    if (!this.drawn) this.drawn = requestAnimationFrame(() => this.draw());
  }

  private callOff(): void {
    for (const control of this.pending.values()) control.abort();
    this.pending.clear();
  }

  // ── tiles ──

  private tileName({ level, row, column }: Place): string {
    return `${this.layer!.name}/${level}/${row}/${column}`;
  }

  private want(places: Place[]): void {
    const wanted = new Set(places.map((place) => this.tileName(place)));
    for (const [name, control] of this.pending) {
      if (wanted.has(name)) continue;
      control.abort();
      this.pending.delete(name);
    }
    for (const place of places) {
      const name = this.tileName(place);
      if (this.tiles.get(name)?.estimate === false || this.pending.has(name)) continue;
      const control = new AbortController();
      this.pending.set(name, control);
      const keep = (tile: Tile): void => {
        if (control.signal.aborted) return;
        this.tiles.set(name, tile);
        this.schedule();
      };
      this.layer!.tile(place.level, place.row, place.column, control.signal, keep)
        .then(keep)
        .catch((error: unknown) => {
          if (!calledOff(error)) this.app.said.value = this.app.say("failed", { message: error instanceof Error ? error.message : String(error) });
        })
        .finally(() => {
          if (this.pending.get(name) === control) this.pending.delete(name);
          this.tellWaiting();
        });
    }
    this.tellWaiting();
  }

  private tellWaiting(): void {
    const names = [...this.pending.keys()];
    this.onwaiting(names.length > 0, names.some((name) => this.tiles.get(name)?.estimate));
  }

  // ── drawing ──

  private draw(): void {
    this.drawn = 0;
    if (!this.layer || this.frame.width <= 1) return;
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
    this.edge = [Math.max(map[0], LEFT), Math.max(map[1], TOP)];
    context.strokeStyle = css(ink.grid);
    context.lineWidth = 1;
    const [x, y] = this.edge;
    context.strokeRect(x - 0.5, y - 0.5, Math.min(map[2], LEFT + frame.width) - x + 1, Math.min(map[3], TOP + frame.height) - y + 1);
    this.drawRuler("key", camera);
    this.drawRuler("query", camera);
  }

  private snap(value: number): number {
    return Math.round(value * this.ratio) / this.ratio;
  }

  private drawTiles(camera: Camera): void {
    const level = this.level(camera);
    const places = tilesIn(camera, this.extent, this.frame, level);
    if (places.length > MOST_TILES) {
      this.callOff();
      this.app.said.value = this.app.say("zoomin");
      return;
    }
    const hatch = this.hatching();
    for (const place of places) {
      const tile = this.tiles.get(this.tileName(place));
      if (tile) this.blit(tile, place, camera, hatch);
      else this.drawCoarser(place, camera, hatch);
    }
    this.want(places);
  }

  private level(camera: Camera): number {
    return this.app.cells.value === "token" ? levelFor(camera.zoom, this.extent) : 0;
  }

  /** Until a tile is there, its part of a coarser one. */
  private drawCoarser(place: Place, camera: Camera, hatch: CanvasPattern): void {
    for (let up = 1; up <= 8; up++) {
      const coarser = { level: place.level + up, row: place.row >> up, column: place.column >> up };
      const tile = this.tiles.get(this.tileName(coarser));
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
      box(this.unitSpan("key", brush.columns), this.unitSpan("query", brush.rows), 1.5, ink.text);
      context.setLineDash([]);
    }
    const cursor = this.app.cursor.value;
    if (cursor) {
      const [row, column] = [this.unitOf("query", cursor.query), this.unitOf("key", cursor.key)];
      box([column, column + 1], [row, row + 1], 2, ink.cursor);
    }
  }

  private drawRuler(side: "query" | "key", camera: Camera): void {
    const { context, frame } = this;
    const across = side === "key";
    const ink = INK[this.app.theme.value];
    const length = across ? this.extent.columns : this.extent.rows;
    const [first, last] = across ? [camera.x - frame.width / 2 / camera.zoom, camera.x + frame.width / 2 / camera.zoom] : [camera.y - frame.height / 2 / camera.zoom, camera.y + frame.height / 2 / camera.zoom];
    context.font = FONT;
    context.textBaseline = "middle";
    const named = camera.zoom >= 13;
    const step = named ? 1 : tickStep(camera.zoom, 48);
    const cursor = this.app.cursor.value;
    const chosen = cursor ? this.unitOf(side, cursor[side]) : -1;
    const found = new Set((across ? this.app.found.value.keys : this.app.found.value.queries).map((index) => this.unitOf(side, index)));
    for (const unit of found) this.mark(side, unit, camera, ink.cursor);
    for (let unit = Math.max(0, Math.ceil(first / step - 1) * step); unit < Math.min(length, last + 1); unit += step) {
      const middle = (unit + 0.5 - (across ? camera.x : camera.y)) * camera.zoom + (across ? frame.width : frame.height) / 2;
      if (middle < 0 || middle > (across ? frame.width : frame.height)) continue;
      context.fillStyle = css(unit === chosen || found.has(unit) ? ink.cursor : named ? ink.text : ink.quiet);
      this.write(named ? this.app.unitLabel(side, unit) : String(unit), across, middle);
    }
    if (chosen >= 0 && !named) this.mark(side, chosen, camera, ink.cursor);
  }

  private mark(side: "query" | "key", unit: number, camera: Camera, colour: string): void {
    const across = side === "key";
    const [x, y] = toPixel(camera, this.frame, unit + 0.5, unit + 0.5);
    const at = across ? x : y;
    if (at < 0 || at > (across ? this.frame.width : this.frame.height)) return;
    this.context.fillStyle = css(colour);
    const [left, top] = this.edge;
    if (across) this.context.fillRect(LEFT + at - 1, top - 6, 2.5, 6);
    else this.context.fillRect(left - 6, TOP + at - 1, 6, 2.5);
  }

  /** One label, in its own direction, cut to the ruler. */
  private write(text: string, across: boolean, middle: number): void {
    const { context } = this;
    const room = (across ? TOP : LEFT) - 12;
    context.save();
    context.direction = direction(text);
    context.textAlign = across ? "left" : "right";
    context.translate(across ? LEFT + middle : this.edge[0] - 8, across ? this.edge[1] - 8 : TOP + middle);
    // Columns are read upwards, so that joined scripts stay joined; what is short enough stands upright.
    if (across && context.measureText(text).width > this.camera.zoom - 2) context.rotate(-Math.PI / 2);
    else if (across) {
      context.textAlign = "center";
      context.translate(0, -4);
    }
    let shown = text;
    if (context.measureText(shown).width > room) {
      const letters = [...shown];
      while (letters.length > 1 && context.measureText(`${letters.join("")}…`).width > room) letters.pop();
      shown = `${letters.join("")}…`;
    }
    context.fillText(shown, 0, 0);
    context.restore();
  }

  // ── units: tokens, words or sentences ──

  unitOf(side: "query" | "key", token: number): number {
    const cells = this.app.cells.peek();
    if (cells === "token") return token;
    const spans = this.app.spans(side, cells);
    let [low, high] = [0, spans.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (spans[middle]![0] <= token) low = middle;
      else high = middle - 1;
    }
    return low;
  }
  private unitSpan(side: "query" | "key", [begin, end]: Span): Span {
    return [this.unitOf(side, begin), this.unitOf(side, end - 1) + 1];
  }
  private tokenOf(side: "query" | "key", unit: number): number {
    const cells = this.app.cells.peek();
    return cells === "token" ? unit : (this.app.spans(side, cells as Semantic)[unit]?.[0] ?? 0);
  }

  // ── pointer, touch, keys ──

  private at(event: { clientX: number; clientY: number }): { px: number; py: number; row: number; column: number; inside: boolean } {
    const box = this.canvas.getBoundingClientRect();
    const [px, py] = [event.clientX - box.left - LEFT, event.clientY - box.top - TOP];
    const [x, y] = toUnit(this.camera, this.frame, px, py);
    const { rows, columns } = this.extent;
    const inside = px >= 0 && py >= 0 && x >= 0 && y >= 0 && x < columns && y < rows;
    return { px, py, row: Math.floor(y), column: Math.floor(x), inside };
  }

  hoverAt(row: number, column: number): Hover {
    const level = this.level(this.camera);
    const [r, c] = [row >> level, column >> level];
    const tile = this.layer ? this.tiles.get(this.tileName({ level, row: Math.floor(r / TILE), column: Math.floor(c / TILE) })) : undefined;
    return { query: this.tokenOf("query", row), key: this.tokenOf("key", column), code: tile?.codes[(r % TILE) * TILE + (c % TILE)], level };
  }

  private listen(): void {
    const { canvas } = this;
    const fingers = new Map<number, { x: number; y: number }>();
    let start: { x: number; y: number; camera: Camera; moved: boolean; brush: { query: number; key: number } | null } | null = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { px, py } = this.at(event);
      this.zoom(2 ** (-event.deltaY / (event.deltaMode === 1 ? 8 : 240)), px, py);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      const here = this.at(event);
      start = { x: event.clientX, y: event.clientY, camera: this.camera, moved: false, brush: event.shiftKey && here.inside ? { query: this.tokenOf("query", here.row), key: this.tokenOf("key", here.column) } : null };
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = this.at(event);
      const finger = fingers.get(event.pointerId);
      if (finger && fingers.size === 2) this.pinch(fingers, event, here);
      else if (start && finger) {
        const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
        start.moved ||= Math.hypot(dx, dy) > 3;
        if (start.brush && here.inside) this.brushTo(start.brush, this.tokenOf("query", here.row), this.tokenOf("key", here.column));
        else if (start.moved && !start.brush) this.look({ ...start.camera, x: start.camera.x - dx / start.camera.zoom, y: start.camera.y - dy / start.camera.zoom });
      }
      if (finger) Object.assign(finger, { x: event.clientX, y: event.clientY });
      this.hovered = here.inside ? { x: here.column, y: here.row } : null;
      this.onhover(this.hovered ? this.hoverAt(here.row, here.column) : null);
    });
    const up = (event: PointerEvent): void => {
      const here = this.at(event);
      if (start && !start.moved && fingers.size === 1 && here.inside && event.type === "pointerup") {
        this.app.cursor.value = { query: this.tokenOf("query", here.row), key: this.tokenOf("key", here.column) };
        this.onchosen();
      }
      fingers.delete(event.pointerId);
      start = null;
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.onhover(null));
    canvas.addEventListener("dblclick", (event) => this.zoom(2, this.at(event).px, this.at(event).py));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private pinch(fingers: Map<number, { x: number; y: number }>, event: PointerEvent, here: { px: number; py: number }): void {
    const other = [...fingers.entries()].find(([id]) => id !== event.pointerId)![1];
    const before = fingers.get(event.pointerId)!;
    const apart = (point: { x: number; y: number }): number => Math.hypot(point.x - other.x, point.y - other.y);
    this.zoom(apart({ x: event.clientX, y: event.clientY }) / Math.max(1, apart(before)), here.px, here.py);
  }

  private brushTo(from: { query: number; key: number }, query: number, key: number): void {
    const span = (a: number, b: number): Span => [Math.min(a, b), Math.max(a, b) + 1];
    const brush: Brush = { rows: span(from.query, query), columns: span(from.key, key) };
    this.app.brush.value = brush;
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = arrows[event.key];
    if (move && event.shiftKey) {
      const pixels = 64 / this.camera.zoom;
      this.look({ ...this.camera, x: this.camera.x + move[1] * pixels, y: this.camera.y + move[0] * pixels });
    } else if (move) this.step(...move);
    else if (event.key === "+" || event.key === "=") this.zoomAtCursor(2);
    else if (event.key === "-" || event.key === "−") this.zoomAtCursor(0.5);
    else if (event.key === "Home" || event.key === "0") this.fit();
    else if (event.key === "b") this.toggleBrush();
    else if (event.key === "Escape") [this.anchor, this.app.brush.value] = [null, null];
    else return;
    event.preventDefault();
  }

  private zoomAtCursor(factor: number): void {
    const cursor = this.app.cursor.value;
    if (!cursor) return this.zoom(factor);
    const [px, py] = toPixel(this.camera, this.frame, this.unitOf("key", cursor.key) + 0.5, this.unitOf("query", cursor.query) + 0.5);
    const seen = px >= 0 && py >= 0 && px <= this.frame.width && py <= this.frame.height;
    if (seen) this.zoom(factor, px, py);
    else this.look({ x: this.unitOf("key", cursor.key) + 0.5, y: this.unitOf("query", cursor.query) + 0.5, zoom: this.camera.zoom * factor });
  }

  /** One cell of what is seen: a weight when near, a block when far. */
  private step(down: number, right: number): void {
    const size = this.app.cells.value === "token" ? 2 ** this.level(this.camera) : 1;
    const cursor = this.app.cursor.value;
    const { rows, columns } = this.extent;
    const [row, column] = cursor ? [this.unitOf("query", cursor.query) + down * size, this.unitOf("key", cursor.key) + right * size] : [Math.floor(this.camera.y), Math.floor(this.camera.x)];
    const [y, x] = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1)];
    this.app.cursor.value = { query: this.tokenOf("query", y), key: this.tokenOf("key", x) };
    if (this.anchor) this.brushTo(this.anchor, this.app.cursor.value.query, this.app.cursor.value.key);
    const [px, py] = toPixel(this.camera, this.frame, x + 0.5, y + 0.5);
    if (px < 0 || py < 0 || px > this.frame.width || py > this.frame.height) this.look({ ...this.camera, x, y });
    this.onchosen();
  }

  private toggleBrush(): void {
    const cursor = this.app.cursor.value;
    if (this.anchor || !cursor) this.anchor = null;
    else {
      this.anchor = { ...cursor };
      this.brushTo(cursor, cursor.query, cursor.key);
    }
  }
}
