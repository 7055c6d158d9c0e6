/** The brushed span as text: lines from queries to keys, and the keys coloured by one query's weights. */

import { calledOff, Latest, type App } from "../app";
import { block } from "../block";
import { cssAt, readableOn, strength } from "../colour";
import { h, replace } from "../dom";
import { reading } from "../label";
import type { Span } from "../provider";
import { effect, signal } from "../signal";
import { words } from "./words";

/** More lines than so many tokens a side are no picture any more. */
const MOST = 80;
const MOST_COLOURED = 2000;

export function text(app: App): { element: HTMLElement; close: () => void } {
  const least = signal(0.05);
  const slider = h("input", { type: "range", min: "0", max: "0.5", step: "0.01", value: "0.05", oninput: () => (least.value = Number(slider.value)) });
  const lines = h("div", { className: "linesbox" });
  const coloured = h("div", { className: "coloured" });
  const hint = h("p", { className: "note" });
  const [linesTitle, colouredTitle, leastName] = [h("h2"), h("h2"), h("span")];
  const element = h("section", { className: "textview", "aria-label": app.say("view.text") },
    h("div", { className: "controls" }, h("label", { className: "field" }, leastName, slider)), hint,
    h("div", { className: "pairbox" }, h("div", { className: "half" }, linesTitle, lines), h("div", { className: "half" }, colouredTitle, coloured)));
  const latest = new Latest();
  let redraw: () => void = () => undefined;
  const watch = new ResizeObserver(() => redraw());
  watch.observe(lines);
  const show = async (signal: AbortSignal, rows: Span, columns: Span, chosen: number | null, threshold: number): Promise<void> => {
    const [site, head] = [app.site.value, app.head.value];
    const limited: [Span, Span] = [[rows[0], Math.min(rows[1], rows[0] + MOST)], [columns[0], Math.min(columns[1], columns[0] + MOST)]];
    const weights = await block(app.provider, site, head, ...limited, 0, signal);
    if (signal.aborted) return;
    const made = words(app, "columns", {
      targets: range(...limited[0]).map((i) => app.label("query", i)),
      sources: range(...limited[1]).map((j) => app.label("key", j)),
      weight: (i, j) => weights[i]![j] || 0,
      least: threshold,
      chosen: chosen === null ? null : chosen - rows[0],
      onchosen: (i) => (app.cursor.value = { query: rows[0] + i, key: app.cursor.peek()?.key ?? columns[0] }),
    });
    replace(lines, made.element);
    (redraw = made.draw)();
    const query = chosen ?? rows[0];
    const row = await app.provider.row(site, head, query, signal);
    if (!signal.aborted) paint(app, coloured, row, [columns[0], Math.min(columns[1], columns[0] + MOST_COLOURED)], query);
  };
  const stops = [
    effect(() => {
      linesTitle.textContent = app.say("text.lines");
      colouredTitle.textContent = app.say("text.colour");
      leastName.textContent = `${app.say("least")}: ${least.value}`;
    }),
    effect(() => {
      void [app.scale.value, app.theme.value];
      const { rows, columns } = app.brush.value ?? around(app);
      const cursor = app.cursor.value;
      const chosen = cursor && cursor.query >= rows[0] && cursor.query < Math.min(rows[1], rows[0] + MOST) ? cursor.query : null;
      hint.textContent = app.brush.value ? "" : app.say("text.brush");
      show(latest.next(), rows, columns, chosen, least.value).catch((error: unknown) => {
        if (!calledOff(error)) replace(lines, app.say("failed", { message: String(error) }));
      });
    }),
  ];
  return {
    element,
    close: () => {
      latest.next();
      watch.disconnect();
      for (const stop of stops) stop();
    },
  };
}

/** Without a brush: what lies around the cursor. */
function around(app: App): { rows: Span; columns: Span } {
  const { queries, keys } = app.current;
  const cursor = app.cursor.value ?? { query: 0, key: 0 };
  const near = (at: number, length: number): Span => {
    const begin = Math.max(0, Math.min(at - MOST / 4, length - MOST / 2));
    return [begin, Math.min(length, begin + MOST / 2)];
  };
  return { rows: near(cursor.query, queries), columns: near(cursor.key, keys) };
}

function paint(app: App, box: HTMLElement, row: Float32Array, [from, to]: Span, query: number): void {
  const [scale, theme] = [app.scale.value, app.theme.value];
  const labels = range(from, to).map((j) => app.label("key", j));
  const seen = row.reduce((count, weight) => count + (weight > 0 ? 1 : 0), 0);
  const tokens = labels.map((label, at) => {
    const weight = row[from + at]!;
    const span = h("bdi", { className: "token", title: weight.toPrecision(3) }, label);
    if (weight > 0) {
      const t = Math.max(0, strength(scale, scale === "lift" ? weight * seen : weight));
      span.style.backgroundColor = cssAt(scale, theme, t);
      span.style.color = readableOn(scale, theme, t);
    }
    return span;
  });
  replace(box, h("p", { className: "which" }, app.say("text.from"), ": ", h("bdi", {}, app.label("query", query))), h("p", { className: "running", dir: reading(labels) }, ...tokens));
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
