/** What is under the pointer or the cursor, in words and numbers; and the whole row's strongest keys as a table. */

import { calledOff, coded, Latest, shown, type App, type Cells } from "../app";
import { decode, HIDDEN } from "../codec";
import { h, replace } from "../dom";
import { lift, shares } from "../lift";
import type { Semantic } from "../provider";
import { effect } from "../signal";
import type { Hover } from "./map";
import { tokenOf, unitOf } from "./units";

export const STRONGEST = 8;

export class Reading {
  readonly element = h("div", { className: "reading", role: "region", tabIndex: 0 });
  private readonly cell = h("div", { className: "cell" });
  private readonly table = h("div", { className: "strongest" });
  private readonly asked = new Latest();
  private readonly asking = new Latest();
  private readonly stops: (() => void)[] = [];
  /** The cell that was read before all of its numbers were there. */
  private lacking: { at: Hover; aloud: boolean } | null = null;

  /** `cells`: what a cell is. */
  constructor(
    private readonly app: App,
    private readonly hoverAt: (query: number, key: number) => Hover | null,
    private readonly cells: () => Cells = () => app.cells.peek(),
  ) {
    this.element.append(this.cell, this.table);
    this.stops.push(effect(() => {
      const cursor = app.cursor.value;
      void [app.site.value, app.head.value, app.pool.value, app.cells.value, app.language.value];
      this.element.setAttribute("aria-label", app.say("strongest"));
      if (!cursor) return replace(this.cell, h("p", { className: "note" }, app.say("reading.none"))), replace(this.table);
      const here = this.hoverAt(cursor.query, cursor.key);
      if (here) void this.read(here, true);
    }), effect(() => {
      void [app.site.value, app.head.value, app.cells.value, app.language.value];
      const query = app.cursor.value?.query;
      if (query !== undefined) void this.list(this.cells() === "token" ? query : tokenOf(app, "query", unitOf(app, "query", query)));
    }));
  }

  close(): void {
    this.asked.next();
    this.asking.next();
    for (const stop of this.stops) stop();
  }

  /** What a cell pools may come after it was read, or be a guess then. */
  again(): void {
    if (this.lacking) void this.read(this.hoverAt(this.lacking.at.query, this.lacking.at.key), this.lacking.aloud);
  }

  /** Reads a cell; aloud when the reader chose it. */
  async read(hover: Hover | null, aloud = false): Promise<void> {
    const signal = this.asked.next();
    const { app } = this;
    const at = hover ?? (app.cursor.peek() ? this.hoverAt(app.cursor.peek()!.query, app.cursor.peek()!.key) : null);
    const cells = this.cells();
    const pooled = at !== null && (at.level > 0 || cells !== "token");
    this.lacking = pooled && (at.code === undefined || at.estimate) ? { at, aloud } : null;
    if (!at) return app.cursor.peek() ? undefined : replace(this.cell, h("p", { className: "note" }, app.say("reading.none")));
    try {
      const { site, head } = app;
      const value = await app.provider.value(site.peek(), head.peek(), at.query, at.key, signal);
      if (signal.aborted) return;
      const names = { query: app.label("query", at.query), key: app.label("key", at.key) };
      const unknown = Number.isNaN(value.weight);
      const numbers = { weight: shown(value.weight), rank: value.rank, lift: shown(value.lift, 3) };
      const level = cells === "token" ? at.level : cells;
      const mass = !pooled || at.code === undefined ? null : decode(at.code);
      const share = !pooled || at.code === HIDDEN ? null : mass === null ? "…" : coded(mass);
      const lifted = cells === "token" || mass === null ? null : coded(mass, 3, lift(mass, await this.equalShare(at, cells, signal)));
      if (signal.aborted) return;
      const units = cells === "token" ? null : { query: app.unitLabel("query", unitOf(app, "query", at.query)), key: app.unitLabel("key", unitOf(app, "key", at.key)) };
      const alone = unknown ? `${names.query} → ${names.key}: ${app.say("legend.unknown")}` : value.visible ? app.say("read.cell", { ...names, ...numbers }) : app.say("read.hidden", names);
      const said = units && share !== null && at.code !== undefined ? app.say("read.pool", { rows: units.query, columns: units.key, pool: app.say("pool.mass").split(/[:：]/)[0]!, weight: share }) : alone;
      replace(
        this.cell,
        ...(units ? [pair("h2", units), h("dl", {}, ...term(app.say("cell"), share === null ? app.say("legend.hidden") : h("strong", {}, share)), ...(lifted === null ? [] : term(app.say("lift"), h("span", { className: "celllift" }, lifted))), ...term(app.say("level"), app.levelName(level)))] : []),
        pair(units ? "h3" : "h2", names),
        h("dl", {},
          ...term(app.say("query"), at.query), ...term(app.say("key"), at.key),
          ...term(app.say("weight"), value.visible ? h("strong", { className: "weight" }, numbers.weight) : app.say("legend.hidden")),
          ...(value.visible && !unknown ? [...term(app.say("rank"), app.say("rank.of", { rank: value.rank, count: value.count })), ...term(app.say("lift"), numbers.lift)] : []),
          ...(value.visible ? term(app.say("score"), shown(value.score)) : []),
          ...(units ? [] : term(app.say("level"), app.levelName(level))),
          ...(share !== null && !units ? term(app.say("cell"), share) : []),
        ),
      );
      if (aloud) app.said.value = said;
    } catch (error) {
      if (!calledOff(error)) replace(this.cell, app.failure(error));
    }
  }

  /** What the words or sentences of a cell would weigh if they were looked at as all else. */
  private async equalShare({ query, key }: Hover, cells: Semantic, signal: AbortSignal): Promise<number> {
    const { app } = this;
    const [row, column] = [unitOf(app, "query", query), unitOf(app, "key", key)];
    const [[share]] = (await shares(app.provider, app.site.peek(), app.head.peek(), [row, row + 1], [column, column + 1], cells, signal)) as [[number | null]];
    return share ?? NaN;
  }

  private async list(query: number): Promise<void> {
    const signal = this.asking.next();
    const { app } = this;
    try {
      const row = await app.provider.row(app.site.peek(), app.head.peek(), query, signal);
      if (signal.aborted) return;
      const best = strongest(row, STRONGEST);
      const why = best.length ? null : nothing(app, (await app.provider.counts(app.site.peek(), app.head.peek()))[query] ? [...row] : []);
      if (signal.aborted) return;
      const head = h("tr", {}, h("th", { scope: "col" }, app.say("key")), h("th", { scope: "col" }, "#"), h("th", { scope: "col", className: "number" }, app.say("weight")));
      const lines = best.map((key) => h("tr", {}, h("td", {}, h("button", { className: "plain", onclick: () => (app.cursor.value = { query, key }) }, h("bdi", {}, app.label("key", key)))), h("td", {}, key), h("td", { className: "number", dir: "ltr" }, shown(row[key]!))));
      replace(this.table, h("table", {}, h("caption", {}, app.say("strongest")), h("thead", {}, head), h("tbody", {}, ...lines)), why);
    } catch (error) {
      if (!calledOff(error)) replace(this.table);
    }
  }
}

/** Why none of the weights is named. */
export function nothing(app: App, row: readonly (number | null)[]): string {
  const seen = row.filter((weight) => weight !== null);
  if (!seen.length) return app.say("nothing");
  if (seen.some(Number.isNaN)) return app.say("nothing.unknown");
  return app.say(seen.some((weight) => weight > 0) ? "nothing.small" : "nothing.zero");
}

/** The places of the largest numbers above 0, largest first. */
export function strongest(row: Float32Array, most: number): number[] {
  const best: number[] = [];
  row.forEach((weight, at) => {
    if (!(weight > 0) || (best.length === most && weight <= row[best[most - 1]!]!)) return;
    const place = best.findIndex((other) => row[other]! < weight);
    best.splice(place < 0 ? best.length : place, 0, at);
    best.length = Math.min(best.length, most);
  });
  return best;
}

const pair = (tag: "h2" | "h3", { query, key }: { query: string; key: string }): HTMLElement =>
  h(tag, { className: "pair", dir: "ltr" }, h("bdi", {}, query), h("span", { "aria-hidden": "true" }, " → "), h("bdi", {}, key));
/** A number stands from left to right in every language. */
const term = (name: string, value: Node | string | number): Node[] => [h("dt", {}, name), h("dd", {}, typeof value === "string" && /^[−\d<]/.test(value) && !/\p{L}{2}/u.test(value) ? h("bdi", { dir: "ltr" }, value) : value)];
