/** What is under the pointer or the cursor, in words and numbers; and the whole row's strongest keys as a table. */

import { calledOff, Latest, shown, type App } from "../app";
import { decode, HIDDEN } from "../codec";
import { h, replace } from "../dom";
import { effect } from "../signal";
import type { Hover } from "./map";
import { unitOf } from "./units";

const STRONGEST = 8;

export class Reading {
  readonly element = h("div", { className: "reading", role: "region", tabIndex: 0 });
  private readonly cell = h("div", { className: "cell" });
  private readonly table = h("div", { className: "strongest" });
  private readonly asked = new Latest();
  private readonly asking = new Latest();
  private readonly stops: (() => void)[] = [];
  private lacking = false;

  constructor(
    private readonly app: App,
    private readonly hoverAt: (query: number, key: number) => Hover,
  ) {
    this.element.append(this.cell, this.table);
    this.stops.push(effect(() => {
      const cursor = app.cursor.value;
      void [app.site.value, app.head.value, app.pool.value, app.cells.value, app.language.value];
      this.element.setAttribute("aria-label", app.say("strongest"));
      if (!cursor) return replace(this.cell, h("p", { className: "note" }, app.say("reading.none"))), replace(this.table);
      void this.read(this.hoverAt(cursor.query, cursor.key), true);
      void this.list(cursor.query);
    }));
  }

  close(): void {
    this.asked.next();
    this.asking.next();
    for (const stop of this.stops) stop();
  }

  /** What the cursor's cell pools may come after it was read. */
  again(): void {
    if (this.lacking) void this.read(null, true);
  }

  /** Reads a cell; aloud when the reader chose it. */
  async read(hover: Hover | null, aloud = false): Promise<void> {
    const signal = this.asked.next();
    const { app } = this;
    const at = hover ?? (app.cursor.peek() ? this.hoverAt(app.cursor.peek()!.query, app.cursor.peek()!.key) : null);
    if (!at) return replace(this.cell, h("p", { className: "note" }, app.say("reading.none")));
    try {
      const { site, head } = app;
      const value = await app.provider.value(site.peek(), head.peek(), at.query, at.key, signal);
      if (signal.aborted) return;
      const names = { query: app.label("query", at.query), key: app.label("key", at.key) };
      const count = app.current.keys;
      const numbers = { weight: shown(value.weight), rank: value.rank, lift: shown(value.lift, 3) };
      const cells = app.cells.peek();
      const level = cells === "token" ? at.level : cells;
      const pooled = at.level > 0 || cells !== "token";
      const share = !pooled || at.code === HIDDEN ? null : at.code === undefined ? "…" : shown(decode(at.code));
      const units = cells === "token" ? null : { query: app.unitLabel("query", unitOf(app, "query", at.query)), key: app.unitLabel("key", unitOf(app, "key", at.key)) };
      const alone = value.visible ? app.say("read.cell", { ...names, ...numbers }) : app.say("read.hidden", names);
      this.lacking = pooled && at.code === undefined;
      const said = units && share !== null && !this.lacking ? app.say("read.pool", { rows: units.query, columns: units.key, pool: app.say("pool.mass").split(/[:：]/)[0]!, weight: share }) : alone;
      replace(
        this.cell,
        ...(units ? [pair("h2", units), h("dl", {}, ...term(app.say("cell"), share === null ? app.say("legend.hidden") : h("strong", {}, share)), ...term(app.say("level"), app.levelName(level)))] : []),
        pair(units ? "h3" : "h2", names),
        h("dl", {},
          ...term(app.say("query"), at.query), ...term(app.say("key"), at.key),
          ...term(app.say("weight"), value.visible ? h("strong", { className: "weight" }, numbers.weight) : app.say("legend.hidden")),
          ...(value.visible ? [...term(app.say("rank"), app.say("rank.of", { rank: value.rank, count })), ...term(app.say("lift"), numbers.lift), ...term(app.say("score"), shown(value.score))] : []),
          ...(units ? [] : term(app.say("level"), app.levelName(level))),
          ...(share !== null && !units ? term(app.say("cell"), share) : []),
        ),
      );
      if (aloud) app.said.value = said;
    } catch (error) {
      if (!calledOff(error)) replace(this.cell, app.say("failed", { message: String(error) }));
    }
  }

  private async list(query: number): Promise<void> {
    const signal = this.asking.next();
    const { app } = this;
    try {
      const row = await app.provider.row(app.site.peek(), app.head.peek(), query, signal);
      if (signal.aborted) return;
      const best = strongest(row, STRONGEST);
      const head = h("tr", {}, h("th", { scope: "col" }, app.say("key")), h("th", { scope: "col" }, "#"), h("th", { scope: "col", className: "number" }, app.say("weight")));
      const lines = best.map((key) => h("tr", {}, h("td", {}, h("button", { className: "plain", onclick: () => (app.cursor.value = { query, key }) }, h("bdi", {}, app.label("key", key)))), h("td", {}, key), h("td", { className: "number" }, shown(row[key]!))));
      replace(this.table, h("table", {}, h("caption", {}, app.say("strongest")), h("thead", {}, head), h("tbody", {}, ...lines)), best.length ? null : app.say("nothing"));
    } catch (error) {
      if (!calledOff(error)) replace(this.table);
    }
  }
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
const term = (name: string, value: Node | string | number): Node[] => [h("dt", {}, name), h("dd", {}, value)];
