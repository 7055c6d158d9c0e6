/** Pointer, touch and keys on a map. */

import type { App, Brush } from "../app";
import { toPixel, type Camera } from "../camera";
import type { Span } from "../provider";
import type { MapView } from "./map";
import { tokenOf, unitOf, unitsFrom, type Side } from "./units";

export class Gestures {
  private anchor: { query: number; key: number } | null = null;

  constructor(
    private readonly app: App,
    private readonly map: MapView,
  ) {
    this.listen();
  }

  private listen(): void {
    const { canvas } = this.map;
    const fingers = new Map<number, { x: number; y: number }>();
    let start: { x: number; y: number; camera: Camera; moved: boolean; brush: { query: number; key: number } | null } | null = null;
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const { px, py } = this.map.at(event);
      this.map.zoom(2 ** (-event.deltaY / (event.deltaMode === 1 ? 8 : 240)), px, py);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, { x: event.clientX, y: event.clientY });
      const here = this.map.at(event);
      start = { x: event.clientX, y: event.clientY, camera: this.map.camera, moved: false, brush: event.shiftKey && here.inside ? { query: tokenOf(this.app, "query", here.row), key: tokenOf(this.app, "key", here.column) } : null };
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = this.map.at(event);
      const finger = fingers.get(event.pointerId);
      if (finger && fingers.size === 2) this.pinch(fingers, event, here);
      else if (start && finger) {
        const [dx, dy] = [event.clientX - start.x, event.clientY - start.y];
        start.moved ||= Math.hypot(dx, dy) > 3;
        if (start.brush && here.inside) this.brushTo(start.brush, tokenOf(this.app, "query", here.row), tokenOf(this.app, "key", here.column));
        else if (start.moved && !start.brush) this.map.look({ ...start.camera, x: start.camera.x - dx / start.camera.zoom, y: start.camera.y - dy / start.camera.zoom });
      }
      if (finger) Object.assign(finger, { x: event.clientX, y: event.clientY });
      this.map.onhover(here.inside ? this.map.hoverAt(here.row, here.column) : null);
    });
    const up = (event: PointerEvent): void => {
      const here = this.map.at(event);
      if (start && !start.moved && fingers.size === 1 && here.inside && event.type === "pointerup") {
        this.app.cursor.value = { query: tokenOf(this.app, "query", here.row), key: tokenOf(this.app, "key", here.column) };
        this.map.onchosen();
      }
      fingers.delete(event.pointerId);
      start = null;
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.map.onhover(null));
    canvas.addEventListener("dblclick", (event) => this.map.zoom(2, this.map.at(event).px, this.map.at(event).py));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  private pinch(fingers: Map<number, { x: number; y: number }>, event: PointerEvent, here: { px: number; py: number }): void {
    const other = [...fingers.entries()].find(([id]) => id !== event.pointerId)![1];
    const before = fingers.get(event.pointerId)!;
    const apart = (point: { x: number; y: number }): number => Math.hypot(point.x - other.x, point.y - other.y);
    this.map.zoom(apart({ x: event.clientX, y: event.clientY }) / Math.max(1, apart(before)), here.px, here.py);
  }

  private brushTo(from: { query: number; key: number }, query: number, key: number): void {
    const span = (side: Side, a: number, b: number): Span => unitsFrom(this.app, side, Math.min(a, b), Math.max(a, b));
    const brush: Brush = { rows: span("query", from.query, query), columns: span("key", from.key, key) };
    this.app.brush.value = brush;
  }

  private key(event: KeyboardEvent): void {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrows: Record<string, [number, number]> = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    const move = arrows[event.key];
    if (move && event.shiftKey) {
      const pixels = 64 / this.map.camera.zoom;
      this.map.look({ ...this.map.camera, x: this.map.camera.x + move[1] * pixels, y: this.map.camera.y + move[0] * pixels });
    } else if (move) this.step(...move);
    else if (event.key === "+" || event.key === "=") this.nearer(2);
    else if (event.key === "-" || event.key === "−") this.nearer(0.5);
    else if (event.key === "Home" || event.key === "0") this.map.fit();
    else if (event.key === "b") this.toggleBrush();
    else if (event.key === "Escape") this.letGo();
    else return;
    event.preventDefault();
  }

  /** First the brush, then the cursor. */
  private letGo(): void {
    if (!this.app.brush.value) this.app.cursor.value = null;
    [this.anchor, this.app.brush.value] = [null, null];
  }

  private nearer(factor: number): void {
    const cursor = this.app.cursor.value;
    if (!cursor) return this.map.zoom(factor);
    const [px, py] = toPixel(this.map.camera, this.map.frame, unitOf(this.app, "key", cursor.key) + 0.5, unitOf(this.app, "query", cursor.query) + 0.5);
    const seen = px >= 0 && py >= 0 && px <= this.map.frame.width && py <= this.map.frame.height;
    if (seen) this.map.zoom(factor, px, py);
    else this.map.look({ x: unitOf(this.app, "key", cursor.key) + 0.5, y: unitOf(this.app, "query", cursor.query) + 0.5, zoom: this.map.camera.zoom * factor });
  }

  /** One cell of what is seen: a weight when near, a block when far. */
  private step(down: number, right: number): void {
    const size = this.app.cells.value === "token" ? 2 ** this.map.level : 1;
    const cursor = this.app.cursor.value;
    const { rows, columns } = this.map.extent;
    const [row, column] = cursor ? [unitOf(this.app, "query", cursor.query) + down * size, unitOf(this.app, "key", cursor.key) + right * size] : [Math.floor(this.map.camera.y), Math.floor(this.map.camera.x)];
    const [y, x] = [Math.min(Math.max(row, 0), rows - 1), Math.min(Math.max(column, 0), columns - 1)];
    this.app.cursor.value = { query: tokenOf(this.app, "query", y), key: tokenOf(this.app, "key", x) };
    if (this.anchor) this.brushTo(this.anchor, this.app.cursor.value.query, this.app.cursor.value.key);
    const [px, py] = toPixel(this.map.camera, this.map.frame, x + 0.5, y + 0.5);
    if (px < 0 || py < 0 || px > this.map.frame.width || py > this.map.frame.height) this.map.look({ ...this.map.camera, x, y });
    this.map.onchosen();
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
