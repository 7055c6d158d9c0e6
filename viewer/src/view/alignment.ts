/** Source and target against each other: the soft weights as a small map, hard links drawn over, gold links if known. */

import { calledOff, Latest, shown, type App } from "../app";
import { block } from "../block";
import { css, cssAt, INK, strength } from "../colour";
import { choice, h, refill, replace } from "../dom";
import { direction, reading } from "../label";
import { errorRate, links, meanOf, pharaoh, type Link } from "../link";
import { TILE, type Level } from "../provider";
import { effect, signal } from "../signal";
import { words } from "./words";

const MOST = 120;

export function alignment(app: App): { element: HTMLElement; close: () => void } {
  const rule = signal<"argmax" | "threshold">("argmax");
  const threshold = signal(0.3);
  const heads = signal<"one" | "mean">("one");
  const slider = h("input", { type: "range", min: "0.05", max: "0.95", step: "0.05", value: "0.3", oninput: () => (threshold.value = Number(slider.value)) });
  const sliderName = h("span");
  const controls = h("div", { className: "controls" });
  const matrix = h("canvas", { className: "matrix", role: "img" });
  const matrixBox = h("div", { className: "matrixbox", tabIndex: 0, role: "group" }, matrix);
  const lines = h("div", { className: "linesbox" });
  const facts = h("div", { className: "facts" });
  const element = h("section", { className: "alignmentview", "aria-label": app.say("view.alignment") }, controls, lines, matrixBox, facts);
  if (app.trace.gold && app.cells.peek() === "token" && app.sequence("query")?.words && app.sequence("key")?.words) {
    // Gold links name words: they are shown where they mean something.
    app.cells.value = "word";
    app.camera.value = null;
  }
  const latest = new Latest();
  let redraw: () => void = () => undefined;
  const watch = new ResizeObserver(() => redraw());
  watch.observe(lines);
  const show = async (signal: AbortSignal, level: Level, mean: boolean, limit: number | null): Promise<void> => {
    const { rows, columns } = app.extent;
    const [n, m] = [Math.min(rows, MOST, TILE), Math.min(columns, MOST, TILE)];
    const site = app.site.value;
    const which = mean ? Array.from({ length: app.current.heads }, (_, head) => head) : [app.head.value];
    const cells = app.cells.peek();
    const gold = goldOf(app).filter(([target, source]) => target < n && source < m);
    const names = { targets: unitNames(app, "query", n), sources: unitNames(app, "key", m) };
    const weights = meanOf(await Promise.all(which.map((head) => block(app.provider, site, head, [0, n], [0, m], level, signal))));
    if (signal.aborted) return;
    const found = links(weights, limit);
    const cursor = app.cursor.peek();
    const made = words(app, "rows", {
      ...names,
      weight: (i, j) => weights[i]![j] || 0,
      least: 0.04,
      chosen: null,
      onchosen: (i) => cells === "token" && (app.cursor.value = { query: i, key: cursor?.key ?? 0 }),
      links: found,
      gold,
    });
    replace(lines, made.element);
    (redraw = made.draw)();
    drawMatrix(app, matrix, weights, names, found, gold);
    matrix.setAttribute("aria-label", found.map(([i, j]) => `${names.targets[i]} → ${names.sources[j]} (${shown(weights[i]![j]!, 2)})`).join("; "));
    const cut = n < rows || m < columns;
    replace(facts,
      gold.length ? h("p", {}, `${app.say("alignment.error")}: `, h("strong", { className: "error" }, shown(errorRate(found, gold), 4)), `. ${app.say("alignment.gold")}.`) : null,
      app.current.query === app.current.key ? h("p", { className: "note" }, app.say("alignment.self")) : null,
      cut ? h("p", { className: "note" }, app.say("alignment.only", { count: Math.max(n, m) })) : null,
      h("label", { className: "pharaoh" }, h("span", {}, app.say("alignment.pharaoh")), h("textarea", { readOnly: true, rows: 2, value: pharaoh(found), dir: "ltr" })));
  };
  const stops = [
    effect(() => {
      sliderName.textContent = `${app.say("alignment.threshold")} ${threshold.value}`;
      slider.disabled = rule.value !== "threshold";
      matrixBox.setAttribute("aria-label", app.say("view.alignment"));
    }),
    effect(() => {
      refill(controls,
        choice(app.say("alignment.rule"), [["argmax", app.say("alignment.argmax")], ["threshold", app.say("alignment.threshold")]], rule.value, (value) => (rule.value = value)),
        h("label", { className: "field" }, sliderName, slider),
        choice(app.say("alignment.heads"), [["one", app.say("alignment.one")], ["mean", app.say("alignment.mean")]], heads.value, (value) => (heads.value = value)));
    }),
    effect(() => {
      void [app.theme.value, app.scale.value, app.language.value];
      const cells = app.cells.value;
      show(latest.next(), cells === "token" ? 0 : cells, heads.value === "mean", rule.value === "threshold" ? threshold.value : null).catch((error: unknown) => {
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

/** Gold links name words where a sequence has words, else tokens: shown where they mean what is shown. */
function goldOf(app: App): readonly Link[] {
  const cells = app.cells.peek();
  const spoken = (side: "query" | "key"): boolean => (app.sequence(side)?.words ? cells === "word" : cells !== "sentence");
  return app.trace.gold && app.current.query !== app.current.key && spoken("query") && spoken("key") ? app.trace.gold : [];
}

const unitNames = (app: App, side: "query" | "key", count: number): string[] => Array.from({ length: count }, (_, at) => app.unitLabel(side, at));

const FONT = '13px system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif';

function drawMatrix(app: App, canvas: HTMLCanvasElement, weights: number[][], names: { targets: string[]; sources: string[] }, found: readonly Link[], gold: readonly Link[]): void {
  const context = canvas.getContext("2d")!;
  const [theme, scale] = [app.theme.peek(), app.scale.peek()];
  const ink = INK[theme];
  const [n, m] = [names.targets.length, names.sources.length];
  context.font = FONT;
  const widest = (texts: string[]): number => Math.min(180, Math.max(...texts.map((text) => context.measureText(text).width), 10) + 12);
  const [left, top] = [widest(names.targets), widest(names.sources)];
  const side = n > 60 || m > 60 ? 14 : n > 30 || m > 30 ? 18 : 26;
  const ratio = devicePixelRatio || 1;
  const [width, height] = [left + m * side + 8, top + n * side + 8];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = css(ink.paper);
  context.fillRect(0, 0, width, height);
  // The first word of a text that reads from the right stands at the right.
  const flipped = reading(names.sources) === "rtl";
  const column = (j: number): number => left + (flipped ? m - 1 - j : j) * side;
  weights.forEach((row, i) => {
    const seen = row.filter((weight) => !Number.isNaN(weight)).length;
    row.forEach((weight, j) => {
      const strong = strength(scale, scale === "lift" ? weight * seen : weight);
      context.fillStyle = Number.isNaN(weight) ? css(ink.hidden) : weight === 0 ? css(ink.zero) : cssAt(scale, theme, strong);
      context.fillRect(column(j), top + i * side, side - 1, side - 1);
    });
  });
  context.strokeStyle = css(ink.gold);
  context.lineWidth = 3;
  for (const [i, j] of gold) context.strokeRect(column(j) + 1, top + i * side + 1, side - 3, side - 3);
  context.fillStyle = css(ink.link);
  for (const [i, j] of found) {
    context.beginPath();
    context.arc(column(j) + (side - 1) / 2, top + (i + 0.5) * side - 0.5, side / 5, 0, 2 * Math.PI);
    context.fill();
  }
  context.font = FONT;
  context.fillStyle = css(ink.text);
  context.textBaseline = "middle";
  names.targets.forEach((name, i) => {
    context.direction = direction(name);
    context.textAlign = "right";
    context.fillText(name, left - 6, top + (i + 0.5) * side, left - 8);
  });
  names.sources.forEach((name, j) => {
    context.save();
    context.direction = direction(name);
    context.translate(column(j) + side / 2, top - 6);
    context.rotate(-Math.PI / 2);
    context.textAlign = "left";
    context.fillText(name, 0, 0, top - 8);
    context.restore();
  });
}
