/** One head, large, beside the tile that is pointed at: for the eye, since the tile itself says the same in words. */

import { shown, type App } from "../app";
import type { Cached } from "../cached";
import { css, INK } from "../colour";
import { h, replace } from "../dom";
import { direction } from "../label";
import { MEASURES, TILE, type Behaviour, type Codes, type Measures, type Site } from "../provider";
import { naming } from "./ruler";
import { levelOf, shiftsOf, thumbnail } from "./thumbnail";

const SIDE = 380;
/** The longest name beside a row, in pixels. */
const MARGIN = 76;
const MEANWHILE = 120;

export interface Previewed {
  site: number;
  head: number;
  element: HTMLElement;
  measures: Measures | null;
  behaviour: Behaviour | null;
}

export class Preview {
  readonly element = h("div", { className: "preview", hidden: true, "aria-hidden": "true" });
  private of: Previewed | null = null;
  private control = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private readonly app: App,
    open: (tile: Previewed) => void,
  ) {
    // A finger opens what it enlarged. The tile keeps the focus meanwhile.
    this.element.addEventListener("mousedown", (event) => event.preventDefault());
    this.element.addEventListener("click", () => this.of && open(this.of));
  }

  get shown(): Previewed | null {
    return this.of;
  }

  /** A pointer may only pass by. */
  soon(tile: Previewed): void {
    this.timer = setTimeout(() => this.show(tile), this.of ? 0 : MEANWHILE);
  }

  show(tile: Previewed): void {
    this.hide();
    this.of = tile;
    this.element.hidden = false;
    const canvas = h("canvas", { className: "enlarged" });
    const { app } = this;
    const site = app.trace.sites[tile.site]!;
    const numbers = MEASURES.map((name) => h("span", {}, app.say(`measure.${name}`), " ", h("bdi", { dir: "ltr" }, tile.measures ? shown(tile.measures[name], 3) : "…")));
    replace(this.element,
      h("strong", {}, h("bdi", {}, app.siteName(site)), " · ", app.say("head"), ` ${tile.head}`, tile.behaviour ? ` · ${app.say(`behaviour.${tile.behaviour}`)}` : ""),
      h("span", { className: "note" }, tile.behaviour ? app.say(`does.${tile.behaviour}`) : ""),
      canvas, h("div", { className: "numbersof" }, ...numbers), h("span", { className: "note touch" }, app.say("overview.open")));
    canvas.style.width = canvas.style.height = `${SIDE}px`;
    this.place();
    void this.draw(canvas, tile, site, this.control.signal).catch(() => undefined);
  }

  hide(): void {
    clearTimeout(this.timer);
    this.control.abort();
    this.control = new AbortController();
    this.of = null;
    this.element.hidden = true;
  }

  /** Beside the tile, where there is room; on a phone below everything. */
  private place(): void {
    const { element } = this;
    const tile = this.of!.element.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = element;
    const right = tile.right + 10 + width <= innerWidth;
    const left = tile.left - 10 - width >= 0;
    element.classList.toggle("below", !right && !left);
    element.style.left = right ? `${tile.right + 10}px` : left ? `${tile.left - 10 - width}px` : "";
    element.style.top = right || left ? `${Math.max(8, Math.min(tile.top + tile.height / 2 - height / 2, innerHeight - height - 8))}px` : "";
  }

  private async draw(canvas: HTMLCanvasElement, { site, head }: Previewed, here: Site, signal: AbortSignal): Promise<void> {
    const { app } = this;
    const { provider, tint } = app;
    const first = await provider.overview(site, head);
    if (signal.aborted) return;
    enlarged(app, canvas, here, await coloured(provider, site, head, here, first.codes, tint, app, 64));
    const level = levelOf(here.queries, here.keys, TILE);
    const finer = async (codes: Codes): Promise<void> => {
      const picture = await coloured(provider, site, head, here, codes, tint, app, TILE);
      if (!signal.aborted) enlarged(app, canvas, here, picture);
    };
    await finer(await provider.tile({ site, head, level, row: 0, column: 0, pool: "peak" }, signal, (codes) => void finer(codes)));
    canvas.dataset["fine"] = "yes";
  }
}

async function coloured(provider: Cached, site: number, head: number, here: Site, codes: Codes, tint: App["tint"], app: App, side: number): Promise<HTMLCanvasElement> {
  return thumbnail(here, codes, app.theme.peek(), tint, await shiftsOf(provider, site, head, here, tint, side), side);
}

/** The map with what its axes are, and with the names along them where these can be read. */
function enlarged(app: App, canvas: HTMLCanvasElement, site: Site, picture: HTMLCanvasElement): void {
  const ink = INK[app.theme.peek()];
  const ratio = devicePixelRatio || 1;
  canvas.width = canvas.height = SIDE * ratio;
  const context = canvas.getContext("2d")!;
  context.scale(ratio, ratio);
  const zoom = (SIDE - MARGIN) / Math.max(site.queries, site.keys);
  const { every, size } = naming(zoom);
  const margin = every ? MARGIN : 22;
  const unit = (SIDE - margin) / Math.max(site.queries, site.keys);
  context.imageSmoothingEnabled = false;
  context.drawImage(picture, margin, margin, site.keys * unit, site.queries * unit);
  context.fillStyle = css(ink.quiet);
  context.font = `${every ? size : 12}px ${getComputedStyle(canvas).fontFamily}`;
  context.textBaseline = "middle";
  for (const side of ["query", "key"] as const) {
    context.save();
    context.translate(margin, margin);
    if (side === "key") context.rotate(-Math.PI / 2);
    const write = (text: string, at: number, align: CanvasTextAlign): void => {
      context.direction = direction(text);
      context.textAlign = align;
      context.fillText(text, side === "key" ? 6 : align === "center" ? at : -6, side === "key" ? at : 0, MARGIN - 10);
    };
    if (every) {
      context.fillStyle = css(ink.text);
      for (let at = 0; at < (side === "key" ? site.keys : site.queries); at += every) {
        context.save();
        if (side === "query") context.translate(0, (at + 0.5) * unit);
        write(app.label(side, at, site), side === "key" ? (at + 0.5) * unit : 0, side === "key" ? "left" : "right");
        context.restore();
      }
    } else {
      context.restore();
      context.save();
      context.textAlign = "left";
      if (side === "query") {
        context.translate(11, margin);
        context.rotate(Math.PI / 2);
      } else context.translate(margin, 11);
      context.direction = "ltr";
      context.fillText(`${app.say(side)} 0 … ${(side === "key" ? site.keys : site.queries) - 1}`, 0, 0);
    }
    context.restore();
  }
}
