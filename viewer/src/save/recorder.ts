/** What is drawn on a canvas, as a drawing: the canvas is drawn once more, and each stroke, text and picture is noted. */

import { svgOf } from "../dom";
import { paint } from "./paint";

type Context = CanvasRenderingContext2D;
const redraws = new WeakMap<HTMLCanvasElement, () => void>();
const recording = new Map<HTMLCanvasElement, Context>();

/** Where a view draws: on the canvas, or on what notes it meanwhile. */
export const contextOf = (canvas: HTMLCanvasElement): Context => recording.get(canvas) ?? canvas.getContext("2d")!;

/** Tells how a canvas is drawn again, by `contextOf` and at once. */
export const drawnBy = (canvas: HTMLCanvasElement, redraw: () => void): void => void redraws.set(canvas, redraw);

/** The drawing of a canvas in its own pixels; null where it cannot be drawn again. */
export function vectorOf(canvas: HTMLCanvasElement): SVGGElement | null {
  const redraw = redraws.get(canvas);
  if (!redraw) return null;
  const recorder = new Recorder(canvas.getContext("2d")!);
  recording.set(canvas, recorder.context);
  try {
    redraw();
  } finally {
    recording.delete(canvas);
  }
  return recorder.root;
}

let clips = 0;

class Recorder {
  readonly root = svgOf("g", {});
  readonly context: Context;
  private group: SVGGElement = this.root;
  private readonly groups: SVGGElement[] = [];
  private path = "";
  private readonly patterns = new WeakMap<CanvasPattern, HTMLCanvasElement>();

  /** State, such as colours, fonts and transforms, stays in the true context. */
  constructor(private readonly real: Context) {
    const notes = this.notes();
    this.context = new Proxy(real, {
      get: (target, name) => {
        const value = Reflect.get(target, name, target) as unknown;
        const note = notes[name as string];
        if (typeof value !== "function") return value;
        return (...given: unknown[]): unknown => {
          const made = note?.(...(given as never[]));
          const done = (value as (...given: unknown[]) => unknown).apply(target, given);
          if (name === "createPattern") this.patterns.set(done as CanvasPattern, given[0] as HTMLCanvasElement);
          return note && made !== undefined ? made : done;
        };
      },
      set: (target, name, value) => Reflect.set(target, name, value, target),
    });
  }

  private notes(): Record<string, (...given: never[]) => unknown> {
    const box = (x: number, y: number, width: number, height: number): string => `M${x} ${y}h${width}v${height}h${-width}z`;
    const draw = (d: string, way: Record<string, string | number>): void => void this.add(svgOf("path", { d, ...way }));
    return {
      save: () => void this.groups.push(this.group),
      restore: () => void (this.group = this.groups.pop() ?? this.root),
      beginPath: () => void (this.path = ""),
      closePath: () => void (this.path += "z"),
      moveTo: (x: number, y: number) => void (this.path += `M${x} ${y}`),
      lineTo: (x: number, y: number) => void (this.path += `${this.path ? "L" : "M"}${x} ${y}`),
      bezierCurveTo: (...points: number[]) => void (this.path += `C${points.join(" ")}`),
      quadraticCurveTo: (...points: number[]) => void (this.path += `Q${points.join(" ")}`),
      rect: (x: number, y: number, width: number, height: number) => void (this.path += box(x, y, width, height)),
      arc: (x: number, y: number, radius: number, from: number, to: number) => void (this.path += arc(x, y, radius, from, to, this.path !== "")),
      fill: () => draw(this.path, this.filled()),
      stroke: () => draw(this.path, this.stroked()),
      fillRect: (x: number, y: number, width: number, height: number) => draw(box(x, y, width, height), this.filled()),
      strokeRect: (x: number, y: number, width: number, height: number) => draw(box(x, y, width, height), this.stroked()),
      clearRect: () => this.group.replaceChildren(),
      clip: () => this.clip(),
      fillText: (text: string, x: number, y: number) => this.text(text, x, y),
      drawImage: (image: HTMLCanvasElement | HTMLImageElement, ...where: number[]) => this.image(image, where),
    };
  }

  private add(element: SVGElement): void {
    const { a, b, c, d, e, f } = this.real.getTransform();
    if (!(a === 1 && d === 1 && !b && !c && !e && !f)) element.setAttribute("transform", `matrix(${[a, b, c, d, e, f].map(tidy).join(" ")})`);
    if (this.real.globalAlpha < 1) element.setAttribute("opacity", String(tidy(this.real.globalAlpha)));
    this.group.append(element);
  }

  private filled(): Record<string, string | number> {
    const { fillStyle } = this.real;
    if (typeof fillStyle === "string") return { ...paint(fillStyle) };
    const swatch = fillStyle instanceof CanvasPattern ? this.patterns.get(fillStyle) : undefined;
    if (!swatch) return { fill: "none" };
    const id = `p${clips++}`;
    const pattern = svgOf("pattern", { id, width: swatch.width, height: swatch.height, patternUnits: "userSpaceOnUse" });
    pattern.append(svgOf("image", { width: swatch.width, height: swatch.height, href: swatch.toDataURL() }));
    this.group.append(pattern);
    return { fill: `url(#${id})` };
  }

  private stroked(): Record<string, string | number> {
    const { strokeStyle, lineWidth } = this.real;
    const { fill, "fill-opacity": opacity } = paint(String(strokeStyle));
    const dash = this.real.getLineDash();
    return { fill: "none", stroke: fill, "stroke-width": tidy(lineWidth), ...(opacity !== undefined && { "stroke-opacity": opacity }), ...(dash.length && { "stroke-dasharray": dash.join(" ") }) };
  }

  private clip(): void {
    const id = `c${clips++}`;
    const path = svgOf("clipPath", { id });
    const outside = this.group;
    this.group = path as unknown as SVGGElement;
    this.add(svgOf("path", { d: this.path }));
    this.group = svgOf("g", { "clip-path": `url(#${id})` });
    outside.append(path, this.group);
  }

  private text(text: string, x: number, y: number): void {
    const { real } = this;
    const { width, fontBoundingBoxAscent: ascent } = real.measureText(text);
    const baseline = real.textBaseline;
    real.textBaseline = "alphabetic";
    const lower = real.measureText(text).fontBoundingBoxAscent - ascent;
    real.textBaseline = baseline;
    const rtl = real.direction === "rtl";
    const anchors: Record<string, string> = { left: rtl ? "end" : "start", right: rtl ? "start" : "end", center: "middle" };
    const weight = /^(?:italic )?(bold|[6-9]00)\b/.exec(real.font);
    this.add(svgOf("text", {
      x: tidy(x), y: tidy(y + lower), "font-size": parseFloat(/([\d.]+)px/.exec(real.font)?.[1] ?? "12"), "text-anchor": anchors[real.textAlign] ?? real.textAlign,
      ...paint(String(real.fillStyle)), ...(weight && { "font-weight": weight[1]! }), ...(rtl && { direction: "rtl" }), ...(width && { textLength: tidy(width), lengthAdjust: "spacingAndGlyphs" }),
    }, text));
  }

  private image(image: HTMLCanvasElement | HTMLImageElement, where: number[]): void {
    const whole = [image.width, image.height];
    const [sx, sy, sw, sh, x, y, width, height] = where.length === 8 ? where : [0, 0, ...whole, where[0]!, where[1]!, where[2] ?? whole[0]!, where[3] ?? whole[1]!];
    const part = svgOf("svg", { x: x!, y: y!, width: width!, height: height!, viewBox: [sx, sy, sw, sh].join(" "), preserveAspectRatio: "none" });
    part.append(svgOf("image", { width: whole[0]!, height: whole[1]!, href: image instanceof HTMLCanvasElement ? image.toDataURL() : image.src, preserveAspectRatio: "none", ...(!this.real.imageSmoothingEnabled && { style: "image-rendering:pixelated" }) }));
    const group = svgOf("g", {});
    group.append(part);
    this.add(group);
  }
}

/** An arc as canvases draw it, clockwise; whole circles are two halves. */
function arc(x: number, y: number, radius: number, from: number, to: number, joined: boolean): string {
  const at = (angle: number): string => `${tidy(x + radius * Math.cos(angle))} ${tidy(y + radius * Math.sin(angle))}`;
  const begin = `${joined ? "L" : "M"}${at(from)}`;
  const turn = (end: number, large: 0 | 1): string => `A${radius} ${radius} 0 ${large} 1 ${at(end)}`;
  if (to - from >= 2 * Math.PI - 1e-9) return `M${at(from)}${turn(from + Math.PI, 0)}${turn(from, 0)}z`;
  return begin + turn(to, to - from > Math.PI ? 1 : 0);
}

const tidy = (value: number): number => Math.round(value * 1000) / 1000;
