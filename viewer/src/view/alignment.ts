/** Source and target against each other: the soft weights as a small map, hard links drawn over, gold links if known. */

import { calledOff, coded, Latest, shown, type App } from "../app";
import { block } from "../block";
import { cellColour, css, INK } from "../colour";
import { choice, h, refill, replace } from "../dom";
import { direction, reading } from "../label";
import { lift, shares } from "../lift";
import { errorRate, links, meanOf, pharaoh, type Link, type Weights } from "../link";
import { TILE, type Level } from "../provider";
import { contextOf, drawnBy } from "../save/recorder";
import { effect, signal } from "../signal";
import { legend } from "./legend";
import { STRONGEST, strongest } from "./reading";
import { cut, downwards, isDownwards } from "./ruler";
import { words } from "./words";

const MOST = 120;

export function alignment(app: App): { element: HTMLElement; close: () => void } {
  const rule = signal<"argmax" | "threshold">("argmax");
  const threshold = signal(0.3);
  const slider = h("input", { type: "range", min: "0.05", max: "0.95", step: "0.05", value: "0.3", oninput: () => (threshold.value = Number(slider.value)) });
  const sliderName = h("span");
  const controls = h("div", { className: "controls" });
  /** Whose lines are shown alone. */
  const chosen = signal<number | null>(null);
  const told = h("p", { className: "pairline" });
  const matrix = h("canvas", { className: "matrix", role: "img" });
  const matrixBox = h("div", { className: "matrixbox", tabIndex: 0, role: "group" }, matrix);
  const lines = h("div", { className: "linesbox" });
  const facts = h("div", { className: "facts" });
  const keys = legend(app, { marks: app.trace.gold ? ["line", "link", "gold"] : ["line", "link"] });
  const element = h("section", { className: "alignmentview", "aria-label": app.say("view.alignment") }, controls, lines, keys, told, matrixBox, facts);
  if (app.trace.gold && app.cells.peek() === "token" && app.sequence("query")?.words && app.sequence("key")?.words) {
    // Gold links name words: they are shown where they mean something.
    app.cells.value = "word";
    app.camera.value = null;
  }
  const latest = new Latest();
  const letGo = (event: KeyboardEvent): void => void (event.key === "Escape" && (chosen.value = null));
  element.addEventListener("keydown", letGo);
  let redraw: () => void = () => undefined;
  let drop: () => void = () => undefined;
  const watch = new ResizeObserver(() => redraw());
  watch.observe(lines);
  let at: (event: PointerEvent) => [number, number] | null = () => null;
  let tell: (target: number | null, source?: number) => void = () => undefined;
  matrix.addEventListener("pointermove", (event) => {
    const cell = at(event);
    tell(cell?.[0] ?? null, cell?.[1]);
  });
  matrix.addEventListener("pointerleave", () => tell(null));
  matrix.addEventListener("click", (event) => {
    const cell = at(event as PointerEvent);
    if (cell) chosen.value = cell[0] === chosen.peek() ? null : cell[0];
  });
  const show = async (signal: AbortSignal, level: Level, mean: boolean, limit: number | null): Promise<void> => {
    const { rows, columns } = app.extent;
    const [n, m] = [Math.min(rows, MOST, TILE), Math.min(columns, MOST, TILE)];
    const site = app.site.value;
    const which = mean ? Array.from({ length: app.current.heads }, (_, head) => head) : [app.head.value];
    const gold = goldOf(app).filter(([target, source]) => target < n && source < m);
    const names = { targets: unitNames(app, "query", n), sources: unitNames(app, "key", m) };
    const weights = meanOf(await Promise.all(which.map((head) => block(app.provider, site, head, [0, n], [0, m], level, signal))));
    const equal = meanOf(await Promise.all(which.map((head) => shares(app.provider, site, head, [0, n], [0, m], level, signal))));
    if (signal.aborted) return;
    const found = links(weights, limit);
    const lifted = weights.map((row, i) => row.map((weight, j) => (weight === null ? null : lift(weight, equal[i]![j]!))));
    const picked = chosen.peek() !== null && chosen.peek()! < n ? chosen.peek() : null;
    const made = words(app, "rows", {
      ...names,
      weight: (i, j) => weights[i]![j] || 0,
      least: 0.04,
      chosen: picked,
      onchosen: (i) => (chosen.value = i),
      onhover: (i) => tell(i),
      links: found,
      gold,
    });
    drop();
    drop = made.close;
    replace(lines, made.element);
    (redraw = made.draw)();
    at = drawMatrix(app, matrix, app.scale.peek() === "lift" ? lifted : weights, names, found, gold);
    app.unknown.value ||= weights.some((row) => row.some(Number.isNaN));
    matrix.setAttribute("aria-label", found.map(([i, j]) => `${names.targets[i]} → ${names.sources[j]} (${shown(weights[i]![j]!, 2)})`).join("; "));
    tell = (target, source) => {
      const row = target ?? picked;
      told.classList.toggle("hint", row === null);
      if (row === null) return void (told.textContent = app.say("alignment.point"));
      if (source === undefined) {
        const best = strongest(Float32Array.from(weights[row]!, (weight) => weight ?? 0), STRONGEST / 2);
        const list = best.map((j) => `${names.sources[j]} ${coded(weights[row]![j]!, 3)}`);
        return replace(told, h("bdi", {}, names.targets[row]!), " → ", ...list.flatMap((each, nth) => [nth ? ", " : "", h("bdi", {}, each)]));
      }
      const weight = weights[row]![source]!;
      const pair = { query: names.targets[row]!, key: names.sources[source]! };
      const numbers = weight === null ? null : { weight: coded(weight), lift: coded(weight, 3, lifted[row]![source]!) };
      told.textContent = numbers ? app.say("read.pair", { ...pair, ...numbers }) : app.say("read.hidden", pair);
    };
    tell(null);
    const partly = n < rows || m < columns;
    replace(facts,
      gold.length ? h("p", {}, `${app.say("alignment.error")}: `, h("strong", { className: "error" }, shown(errorRate(found, gold), 4)), `. ${app.say("alignment.gold")}.`) : null,
      app.current.query === app.current.key ? h("p", { className: "note" }, app.say("alignment.self")) : null,
      partly ? h("p", { className: "note" }, app.say("alignment.only", { count: Math.max(n, m) })) : null,
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
        choice(app.say("alignment.heads"), [["one", app.say("alignment.one")], ["mean", app.say("alignment.mean")]], app.heads.value, (value) => (app.heads.value = value)));
    }),
    effect(() => {
      void [app.theme.value, app.scale.value, app.language.value, chosen.value];
      const cells = app.cells.value;
      show(latest.next(), cells === "token" ? 0 : cells, app.heads.value === "mean", rule.value === "threshold" ? threshold.value : null).catch((error: unknown) => {
        if (!calledOff(error)) replace(lines, app.failure(error));
      });
    }),
  ];
  return {
    element,
    close: () => {
      latest.next();
      watch.disconnect();
      drop();
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

const FONT = '13px system-ui, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "DejaVu Sans", sans-serif';

/** Draws weights, or lifts, and says which cell lies under a pointer. */
function drawMatrix(app: App, canvas: HTMLCanvasElement, values: Weights, names: { targets: string[]; sources: string[] }, found: readonly Link[], gold: readonly Link[]): (event: PointerEvent) => [number, number] | null {
  drawnBy(canvas, () => void drawMatrix(app, canvas, values, names, found, gold));
  const context = contextOf(canvas);
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
  values.forEach((row, i) => {
    row.forEach((value, j) => {
      context.fillStyle = cellColour(scale, theme, value);
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
    // Printed in grey, a dot on a middling cell is seen by its rim.
    context.lineWidth = 1.5;
    context.strokeStyle = css(ink.paper);
    context.stroke();
  }
  context.font = FONT;
  context.fillStyle = css(ink.text);
  context.textBaseline = "middle";
  names.targets.forEach((name, i) => {
    context.direction = direction(name);
    context.textAlign = "right";
    context.fillText(cut(context, name, left - 10), left - 6, top + (i + 0.5) * side);
  });
  names.sources.forEach((name, j) => {
    context.save();
    context.direction = direction(name);
    context.translate(column(j) + side / 2, top - 6);
    if (isDownwards(name)) {
      context.textAlign = "center";
      downwards(context, name, 13, top - 8);
    } else {
      context.rotate(-Math.PI / 2);
      context.textAlign = "left";
      context.fillText(cut(context, name, top - 10), 0, 0);
    }
    context.restore();
  });
  return ({ clientX, clientY }) => {
    const box = canvas.getBoundingClientRect();
    const [i, across] = [Math.floor((clientY - box.top - top) / side), Math.floor((clientX - box.left - left) / side)];
    const j = flipped ? m - 1 - across : across;
    return i >= 0 && i < n && j >= 0 && j < m ? [i, j] : null;
  };
}
