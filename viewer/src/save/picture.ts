/** What a part of the page shows, as an SVG that stands alone: texts as texts, boxes, lines, and canvases as pictures. */

import { INK, css, type Theme } from "../colour";
import { svgOf as svg } from "../dom";
import { reading } from "../label";
import { paint } from "./paint";
import { vectorOf } from "./recorder";

export const FONTS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "DejaVu Sans", sans-serif';
/** What readers press, and what only says how. */
const CONTROLS = ".controls,.field,.pharaoh,.rerun,.zoom,.mini,.told.note,.hint,.switches:not(:has(.outcome)),.textview>.note,input:not(td input),select,textarea,details:not([open])";
const [MARGIN, TITLE, LINE] = [20, 17, 13.5];

export interface Heading {
  /** For those who cannot see the picture. */
  spoken: string;
  title: string;
  /** The sentence, where the view does not show it. */
  text: string;
  /** What the numbers are. */
  note: string;
}
export interface Picture {
  svg: string;
  width: number;
  height: number;
}
export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

/** What an element and all in it look like now. */
export function drawn(part: HTMLElement): Drawing {
  const drawing = new Drawing(part.getBoundingClientRect());
  drawing.element(part);
  return drawing;
}

/** The box around several. */
export const around = (boxes: readonly Box[]): Box => ({
  left: Math.min(...boxes.map(({ left }) => left)),
  top: Math.min(...boxes.map(({ top }) => top)),
  right: Math.max(...boxes.map(({ right }) => right)),
  bottom: Math.max(...boxes.map(({ bottom }) => bottom)),
});

export class Drawing {
  private readonly root = svg("svg", { "font-family": FONTS, role: "img" });
  private readonly marks = svg("defs", {});
  private into: SVGElement = svg("g", {});
  private readonly content = this.into;
  extent: Box = { left: Infinity, top: Infinity, right: -Infinity, bottom: -Infinity };
  private readonly brush = document.createElement("canvas").getContext("2d")!;

  constructor(private readonly origin: { left: number; top: number }) {}

  element(element: Element): void {
    if (element.matches(CONTROLS)) return;
    const style = getComputedStyle(element);
    const opacity = Number(style.opacity);
    if (style.display === "none" || !opacity) return;
    const outside = this.into;
    if (opacity < 1) outside.append((this.into = svg("g", { opacity })));
    if (style.visibility === "visible") this.drawn(element, style);
    else for (const child of element.children) this.element(child);
    this.into = outside;
  }

  private drawn(element: Element, style: CSSStyleDeclaration): void {
    const box = this.placed(element.getBoundingClientRect());
    if (element instanceof SVGSVGElement) return this.vector(element, box);
    this.box(box, style);
    if (element instanceof HTMLCanvasElement) return this.image(element, box, style);
    if (element instanceof HTMLInputElement) return this.line(element.value, this.inside(element, style), style);
    if (element.localName === "mfrac") this.fraction(element, style);
    if (element.localName === "msqrt") this.add("path", { d: `M${box.left} ${(box.top + box.bottom) / 2 + 1}l2-2 3 ${(box.bottom - box.top) / 2}L${box.left + 8} ${box.top}H${box.right}`, fill: "none", stroke: paint(style.color).fill }, box);
    for (const child of element.childNodes) {
      if (child instanceof Element) this.element(child);
      else if (child instanceof Text) this.text(child, style);
    }
  }

  private placed({ left, top, right, bottom }: Box): Box {
    const { origin } = this;
    return { left: round(left - origin.left), top: round(top - origin.top), right: round(right - origin.left), bottom: round(bottom - origin.top) };
  }

  private add(tag: keyof SVGElementTagNameMap, attributes: Record<string, string | number>, box: Box, text = ""): SVGElement {
    const made = svg(tag, attributes, text);
    this.into.append(made);
    this.extent = around([this.extent, box]);
    return made;
  }

  private rect(box: Box, attributes: Record<string, string | number>): void {
    const [width, height] = [round(box.right - box.left), round(box.bottom - box.top)];
    if (width > 0 && height > 0) this.add("rect", { x: box.left, y: box.top, width, height, ...attributes }, box);
  }

  /** Background, border and the strip of a shadow without blur. */
  private box(box: Box, style: CSSStyleDeclaration): void {
    const radius = Math.min(parseFloat(style.borderTopLeftRadius) || 0, (box.bottom - box.top) / 2);
    const round_ = radius ? { rx: round(radius) } : {};
    const back = paint(style.backgroundColor);
    if (back["fill-opacity"] !== 0) this.rect(box, { ...back, ...round_ });
    const gradient = style.backgroundImage === "none" ? null : this.gradient(style.backgroundImage);
    if (gradient) this.rect(box, { fill: gradient });
    const width = parseFloat(style.borderTopWidth);
    const line = paint(style.borderTopColor);
    if (width && style.borderTopStyle !== "none" && line["fill-opacity"] !== 0) {
      const inner = { left: box.left + width / 2, top: box.top + width / 2, right: box.right - width / 2, bottom: box.bottom - width / 2 };
      this.rect(inner, { fill: "none", stroke: line.fill, "stroke-width": width, ...round_ });
    }
    const strip = /^(.+\)) 0px (-?[\d.]+)px 0px 0px( inset)?$/.exec(style.boxShadow);
    const under = parseFloat(style.borderBottomWidth) && !width ? [style.borderBottomColor, -parseFloat(style.borderBottomWidth)] as const : strip ? [strip[1]!, Number(strip[2])] as const : null;
    if (under) this.rect({ ...box, top: Math.min(box.bottom, box.bottom + under[1]), bottom: Math.max(box.bottom, box.bottom + under[1]) }, paint(under[0]));
  }

  /** The two kinds that legends have: a scale from left to right, and a hatching. */
  private gradient(image: string): string | null {
    const stops = [...image.matchAll(/((?:rgba?|color)\([^)]*\))\s*([\d.]+)?/g)].map((found) => paint(found[1]!));
    if (stops.length < 2) return null;
    const id = `g${this.marks.children.length}`;
    if (image.startsWith("repeating")) {
      const hatch = svg("pattern", { id, width: 4, height: 4, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" });
      hatch.append(svg("rect", { width: 4, height: 4, ...stops[0] }), svg("rect", { width: 1, height: 4, ...stops.at(-1) }));
      this.marks.append(hatch);
    } else {
      const scale = svg("linearGradient", { id });
      scale.append(...stops.map(({ fill, ...rest }, at) => svg("stop", { offset: round(at / (stops.length - 1)), "stop-color": fill, ...("fill-opacity" in rest && { "stop-opacity": rest["fill-opacity"]! }) })));
      this.marks.append(scale);
    }
    return `url(#${id})`;
  }

  private image(canvas: HTMLCanvasElement, box: Box, style: CSSStyleDeclaration): void {
    if (!canvas.width || !canvas.height) return;
    const [width, height] = [round(box.right - box.left), round(box.bottom - box.top)];
    const vector = vectorOf(canvas);
    if (vector) {
      const whole = svg("svg", { x: box.left, y: box.top, width, height, viewBox: `0 0 ${canvas.width} ${canvas.height}` });
      whole.append(vector);
      this.add("g", {}, box).append(whole);
      return;
    }
    const pixelated = style.imageRendering === "pixelated" ? { style: "image-rendering:pixelated" } : {};
    this.add("image", { x: box.left, y: box.top, width, height, preserveAspectRatio: style.objectFit === "contain" ? "xMidYMid" : "none", href: canvas.toDataURL("image/png"), ...pixelated }, box);
  }

  /** Drawings come as they are, with what style sheets say of them. */
  private vector(from: SVGSVGElement, box: Box): void {
    const copy = from.cloneNode(true) as SVGSVGElement;
    const all = [...from.querySelectorAll<SVGElement>("*")];
    [...copy.querySelectorAll<SVGElement>("*")].forEach((each, at) => {
      const style = getComputedStyle(all[at]!);
      for (const name of ["stroke", "fill"] as const) {
        const { fill, ...rest } = paint(style[name]);
        each.setAttribute(name, style[name] === "none" ? "none" : fill);
        if (rest["fill-opacity"] !== undefined && style[name] !== "none") each.setAttribute(`${name}-opacity`, String(rest["fill-opacity"]));
      }
      each.setAttribute("stroke-linecap", style.strokeLinecap);
      each.removeAttribute("class");
    });
    for (const name of [...copy.getAttributeNames()]) if (name !== "viewBox") copy.removeAttribute(name);
    const [width, height] = [round(box.right - box.left), round(box.bottom - box.top)];
    for (const [name, value] of Object.entries({ x: box.left, y: box.top, width, height, overflow: getComputedStyle(from).overflow, ...(from.getAttribute("class") && { class: from.getAttribute("class")! }) })) copy.setAttribute(name, String(value));
    this.add("g", {}, box).append(copy);
    // Lines may leave their box.
    for (const line of all) {
      const reach = this.placed(line.getBoundingClientRect());
      if (reach.right > reach.left) this.extent = around([this.extent, reach]);
    }
  }

  private fraction(element: Element, style: CSSStyleDeclaration): void {
    const [upper, lower] = [...element.children].map((child) => this.placed(child.getBoundingClientRect()));
    const box = this.placed(element.getBoundingClientRect());
    if (upper && lower) this.rect({ ...box, top: (upper.bottom + lower.top) / 2 - 0.5, bottom: (upper.bottom + lower.top) / 2 + 0.5 }, paint(style.color));
  }

  /** Each line of a text for itself. */
  private text(node: Text, style: CSSStyleDeclaration): void {
    for (const { text, box } of linesOf(node)) this.line(text, this.placed(box), style, node.parentElement!);
  }

  /** What is written in a field: from its beginning, in the middle of its height. */
  private inside(input: HTMLInputElement, style: CSSStyleDeclaration): Box {
    const { left, top, bottom } = this.placed(input.getBoundingClientRect());
    const begin = left + parseFloat(style.paddingLeft) + parseFloat(style.borderLeftWidth);
    this.brush.font = style.font;
    return { left: begin, top, right: begin + this.brush.measureText(input.value).width, bottom };
  }

  /** As wide as it is here, whatever font is there to draw it. */
  private line(text: string, box: Box, style: CSSStyleDeclaration, parent: Element | null = null): void {
    const rtl = style.direction === "rtl";
    this.brush.font = style.font;
    const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = this.brush.measureText(text);
    const bold = Number(style.fontWeight) > 400 ? { "font-weight": style.fontWeight } : {};
    const family = parent?.closest("math") ? { "font-family": "math, serif" } : /mono/i.test(style.fontFamily) ? { "font-family": "monospace" } : {};
    const italic = style.fontStyle === "italic" || (parent?.localName === "mi" && [...text].length === 1);
    const struck = /line-through/.test(style.textDecorationLine) || parent?.closest("s") ? { "text-decoration": "line-through" } : {};
    this.add("text", {
      x: rtl ? box.right : box.left, y: round(box.top + (box.bottom - box.top - ascent - descent) / 2 + ascent), "font-size": round(parseFloat(style.fontSize)),
      ...paint(style.color), ...bold, ...family, ...struck, ...(rtl && { direction: "rtl" }), ...(italic && { "font-style": "italic" }),
      textLength: round(box.right - box.left), lengthAdjust: "spacingAndGlyphs",
    }, box, text);
  }

  /** With title, sentence and note around it. */
  framed({ spoken, title, text, note }: Heading, theme: Theme, whole: Box = this.extent): Picture {
    const { root } = this;
    const extent = whole.left > whole.right ? { left: 0, top: 0, right: 0, bottom: 0 } : whole;
    const ink = INK[theme];
    const inner = Math.max(360, extent.right - extent.left);
    const shift = (inner - (extent.right - extent.left)) / 2;
    const lines: [string, number, string][] = [
      ...this.wrapped(title, TITLE, inner).map((line): [string, number, string] => [line, TITLE, ink.text]),
      ...this.wrapped(text, LINE, inner).map((line): [string, number, string] => [line, LINE, ink.text]),
      ...this.wrapped(note, LINE, inner).map((line): [string, number, string] => [line, LINE, ink.quiet]),
    ];
    const width = Math.ceil(inner + 2 * MARGIN);
    let y = MARGIN;
    const above = lines.map(([line, size, colour]) => {
      y += size * 1.4;
      const rtl = reading([line]) === "rtl";
      return svg("text", { x: rtl ? width - MARGIN : MARGIN, y: round(y - size * 0.35), "font-size": size, fill: css(colour), ...(size === TITLE && { "font-weight": 600 }), ...(rtl && { direction: "rtl" }) }, line);
    });
    y += lines.length ? 12 : 0;
    const height = Math.ceil(y + extent.bottom - extent.top + MARGIN);
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) root.setAttribute(name, String(value));
    this.content.setAttribute("transform", `translate(${round(MARGIN + shift - extent.left)} ${round(y - extent.top)})`);
    root.append(svg("title", {}, plain(spoken)), this.marks, svg("rect", { width, height, fill: css(ink.paper) }), ...above, this.content);
    return { svg: new XMLSerializer().serializeToString(root), width, height };
  }

  private wrapped(text: string, size: number, width: number): string[] {
    this.brush.font = `${size === TITLE ? 600 : 400} ${size}px ${FONTS}`;
    const lines: string[] = [];
    // Scripts without spaces wrap anywhere.
    for (const word of text.match(/\S{1,40}\s*/gu) ?? []) {
      const longer = (lines.at(-1) ?? "") + word;
      if (lines.length && this.brush.measureText(longer).width <= width) lines[lines.length - 1] = longer;
      else lines.push(word);
    }
    return lines.map((line) => plain(line.trim()));
  }
}

/** The lines that a text takes, each with what is written in it. */
function linesOf(node: Text): { text: string; box: Box }[] {
  const range = document.createRange();
  const lines: { text: string; box: Box }[] = [];
  const [whole, upright] = [node.data, node.parentElement!.closest("math") !== null];
  if (!whole.trim()) return [];
  range.setStart(node, whole.length - whole.trimStart().length);
  range.setEnd(node, whole.trimEnd().length);
  const boxes = range.getClientRects();
  if (!boxes.length) return [];
  if (boxes.length === 1 || upright) return [{ text: plain(whole.trim()), box: range.getBoundingClientRect() }];
  for (const { index, 0: word } of whole.matchAll(/[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]|[^\s\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}]+/gu)) {
    range.setStart(node, index);
    range.setEnd(node, index + word.length);
    const { left, top, right, bottom } = range.getBoundingClientRect();
    const last = lines.at(-1);
    if (last && Math.abs(last.box.top - top) < (bottom - top) / 2) {
      last.text += `${/\s/.test(whole[index - 1] ?? "") ? " " : ""}${plain(word)}`;
      last.box = { left: Math.min(last.box.left, left), top: last.box.top, right: Math.max(last.box.right, right), bottom: last.box.bottom };
    } else lines.push({ text: plain(word), box: { left, top, right, bottom } });
  }
  return lines;
}

const round = (value: number): number => Math.round(value * 100) / 100;
/** Without characters that XML does not allow. */
const plain = (text: string): string => text.replace(/[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/g, "");
