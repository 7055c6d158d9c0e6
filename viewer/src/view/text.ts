/** The brushed span as text: lines from queries to keys, and the keys coloured by one query's weights. */

import { calledOff, coded, Latest, type App } from "../app";
import { block } from "../block";
import { cellColour, css, HEADS, INK, readableOn, strength } from "../colour";
import { h, refill, replace } from "../dom";
import { reading } from "../label";
import type { Span } from "../provider";
import { lift } from "../lift";
import { rowOf, type Row } from "../row";
import { effect, signal } from "../signal";
import { legend } from "./legend";
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
  const part = h("p", { className: "note part", hidden: true });
  const picks = h("div", { className: "picks", role: "group" });
  const [linesTitle, colouredTitle, leastName] = [h("h2"), h("h2"), h("span")];
  const element = h("section", { className: "textview", "aria-label": app.say("view.text") },
    h("div", { className: "controls" }, h("label", { className: "field" }, leastName, slider), picks), hint, part,
    h("div", { className: "pairbox" }, h("div", { className: "half" }, linesTitle, lines), h("div", { className: "half" }, colouredTitle, coloured)), legend(app, { marks: ["line"], heads: () => app.together.value.map((head) => [app.headColour(head), `${app.say("head")} ${head}`] as const) }));
  const [latest, colouring] = [new Latest(), new Latest()];
  element.addEventListener("keydown", (event) => event.key === "Escape" && (app.cursor.value = null));
  let redraw: () => void = () => undefined;
  let drop: () => void = () => undefined;
  const watch = new ResizeObserver(() => redraw());
  watch.observe(lines);
  const show = async (signal: AbortSignal, rows: Span, columns: Span, chosen: number | null, threshold: number): Promise<void> => {
    const [site, drawn] = [app.site.value, app.drawn];
    const limited: [Span, Span] = [[rows[0], Math.min(rows[1], rows[0] + MOST)], [columns[0], Math.min(columns[1], columns[0] + MOST)]];
    const all = await Promise.all(drawn.map((each) => block(app.provider, site, each, ...limited, 0, signal)));
    if (signal.aborted) return;
    const cut = limited[0][1] - limited[0][0] < app.current.queries || limited[1][1] - limited[1][0] < app.current.keys;
    const span = ([from, to]: Span): string => (to - from > 1 ? `${from}–${to - 1}` : String(from));
    part.hidden = !cut;
    part.textContent = cut ? app.say("text.shown", { rows: span(limited[0]), columns: span(limited[1]), queries: app.current.queries, keys: app.current.keys }) : "";
    const query = chosen ?? rows[0];
    const colour = async (of: number): Promise<void> => {
      const span = colouredSpan(app, of);
      const row = await rowOf(app, site, drawn, of, span, colouring.next());
      paint(app, coloured, row, span, of);
    };
    const made = words(app, "columns", {
      targets: range(...limited[0]).map((i) => app.label("query", i)),
      sources: range(...limited[1]).map((j) => app.label("key", j)),
      weight: (i, j) => Math.max(...all.map((weights) => weights[i]![j] || 0)),
      ...(drawn.length > 1 && { maps: drawn.map((each, at) => ({ colour: app.headColour(each), weight: (i: number, j: number) => all[at]![i]![j] || 0 })) }),
      least: threshold,
      chosen: chosen === null ? null : chosen - rows[0],
      onchosen: (i) => (app.cursor.value = i === null ? null : { query: rows[0] + i, key: app.cursor.peek()?.key ?? columns[0] }),
      onhover: (i) => void colour(i === null ? query : rows[0] + i).catch(() => undefined),
    });
    drop();
    drop = made.close;
    replace(lines, made.element);
    (redraw = made.draw)();
    await colour(query);
  };
  const stops = [
    effect(() => {
      const { heads } = app.current;
      const drawn = app.drawn;
      picks.hidden = heads < 2;
      picks.setAttribute("aria-label", app.say("text.heads"));
      refill(picks, h("span", { className: "pickname" }, app.say("text.heads")), ...Array.from({ length: heads }, (_, head) => {
        const full = !drawn.includes(head) && drawn.length >= HEADS.light.length;
        const mark = h("span", { className: "swatch" });
        if (drawn.includes(head)) mark.style.background = drawn.length > 1 ? app.headColour(head) : css(INK[app.theme.value].line);
        return h("button", { className: "pick", "aria-pressed": String(drawn.includes(head)), "aria-label": `${app.say("head")} ${head}`, "aria-disabled": full ? "true" : null, title: full ? app.say("text.most", { count: HEADS.light.length }) : null, onclick: () => app.toggle(head) }, mark, String(head));
      }));
    }),
    effect(() => {
      linesTitle.textContent = app.say("text.lines");
      colouredTitle.textContent = app.say("text.colour");
      leastName.textContent = `${app.say("least")}: ${least.value}`;
    }),
    effect(() => {
      void [app.scale.value, app.theme.value, app.together.value];
      const { rows, columns } = app.brush.value ?? around(app);
      const cursor = app.cursor.value;
      const chosen = cursor && cursor.query >= rows[0] && cursor.query < Math.min(rows[1], rows[0] + MOST) ? cursor.query : null;
      hint.textContent = `${app.say("text.choose")} ${app.brush.value ? "" : app.say("text.brush")}`;
      if (app.crowded.value) hint.prepend(h("strong", {}, app.say("text.most", { count: HEADS.light.length })), " ");
      show(latest.next(), rows, columns, chosen, least.value).catch((error: unknown) => {
        if (!calledOff(error)) replace(lines, app.failure(error));
      });
    }),
  ];
  return {
    element,
    close: () => {
      latest.next();
      colouring.next();
      watch.disconnect();
      drop();
      for (const stop of stops) stop();
    },
  };
}

/** Without a brush: what lies around the cursor. */
function around(app: App): { rows: Span; columns: Span } {
  const { queries, keys } = app.current;
  const cursor = app.cursor.value ?? { query: 0, key: 0 };
  const near = (at: number, length: number): Span => {
    const begin = Math.max(0, Math.min(at - MOST / 2, length - MOST));
    return [begin, Math.min(length, begin + MOST)];
  };
  return { rows: near(cursor.query, queries), columns: near(cursor.key, keys) };
}

/** All keys that there is room for, or those of the brush. */
function colouredSpan(app: App, query: number): Span {
  const { keys } = app.current;
  const [from, to] = app.brush.peek()?.columns ?? [Math.max(0, Math.min(query - MOST_COLOURED / 2, keys - MOST_COLOURED)), keys];
  return [from, Math.min(to, from + MOST_COLOURED)];
}

function paint(app: App, box: HTMLElement, { weights, shares }: Row, [from, to]: Span, query: number): void {
  const [scale, theme] = [app.scale.value, app.theme.value];
  const labels = range(from, to).map((j) => app.label("key", j));
  const tokens = labels.map((label, at) => {
    const weight = weights[at]!;
    const told = weight === null ? app.say("legend.hidden") : `${app.say("weight")} ${coded(weight, 3)}`;
    const span = h("bdi", { className: weight === null ? "token hiddentoken" : "token", title: told }, label);
    if (weight === null || Number.isNaN(weight)) app.unknown.value ||= weight !== null;
    if (weight !== null) {
      const value = scale === "lift" ? lift(weight, shares[at]!) : weight;
      span.style.backgroundColor = cellColour(scale, theme, value);
      span.style.color = weight === 0 ? "" : readableOn(scale, theme, Math.max(0, strength(scale, value)));
    }
    return span;
  });
  replace(box, h("p", { className: "which" }, app.say("text.from"), ": ", h("bdi", {}, app.label("query", query)), app.together.value.length ? ` · ${app.say("story.mean", { count: app.drawn.length })}` : ""), h("p", { className: "running", dir: reading(labels) }, ...tokens));
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
