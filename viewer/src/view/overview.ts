/** All heads at once: a small map of each, with bars for what they do, in any order. */

import { shown, type App } from "../app";
import { INK, css, pixels } from "../colour";
import { choice, h, refill, replace } from "../dom";
import { overviewLevel } from "../engine/level";
import { MEASURES, THUMBNAIL, type Measure, type Measures, type Site } from "../provider";
import { effect, signal, untracked } from "../signal";

const BARS: readonly Measure[] = ["entropy", "distance", "sink"];

interface Card {
  site: number;
  head: number;
  element: HTMLButtonElement;
  canvas: HTMLCanvasElement;
  bars: HTMLElement;
  measures: Measures | null;
}

export function overview(app: App): { element: HTMLElement; close: () => void } {
  const order = signal<"place" | Measure>("place");
  const kind = signal<Site["kind"] | "all">("all");
  const measured = signal(0);
  const grid = h("div", { className: "heads" });
  const note = h("p", { className: "note" });
  const controls = h("div", { className: "controls" });
  const element = h("section", { className: "overview", "aria-label": app.say("view.overview") }, controls, note, grid);
  const cards = app.trace.sites.flatMap((site, index) => Array.from({ length: site.heads }, (_, head) => card(app, index, head)));
  let open = true;
  const seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      seen.unobserve(target);
      void draw(app, cards.find(({ element: each }) => each === target)!);
    }
  });
  for (const each of cards) seen.observe(each.element);
  const estimates = new Set<number>();
  void (async () => {
    for (const site of app.trace.sites.keys()) {
      if (!open) return;
      const told = await app.provider.statistics(site).catch(() => null);
      if (told?.estimate) estimates.add(site);
      for (const each of cards) if (told && each.site === site) each.measures = told.heads[each.head] ?? null;
      measured.value += 1;
    }
  })();
  const stops = [
    effect(() => {
      void app.language.value;
      refill(controls,
        choice(app.say("sort"), [["place", app.say("sort.place")] as const, ...MEASURES.map((name) => [name, app.say(`measure.${name}`)] as const)], order.value, (name) => (order.value = name)),
        choice(app.say("kind"), (["all", "self", "cross", "graph", "recurrent"] as const).map((name) => [name, app.say(`kind.${name}`)] as const), kind.value, (name) => (kind.value = name)),
      );
    }),
    effect(() => {
      void measured.value;
      const by = order.value;
      const chosen = cards.filter(({ site }) => kind.value === "all" || app.trace.sites[site]!.kind === kind.value);
      if (by !== "place") chosen.sort((a, b) => (b.measures?.[by] ?? -1) - (a.measures?.[by] ?? -1));
      untracked(() => lay(app, grid, chosen, by === "place"));
      label(app, cards);
      note.textContent = estimates.size ? app.say("estimate") : "";
    }),
    effect(() => {
      void [app.theme.value, app.scale.value];
      for (const each of cards) if (each.canvas.dataset["drawn"]) void draw(app, each);
    }),
  ];
  return {
    element,
    close: () => {
      open = false;
      seen.disconnect();
      for (const stop of stops) stop();
    },
  };
}

function card(app: App, site: number, head: number): Card {
  const canvas = h("canvas", { width: THUMBNAIL, height: THUMBNAIL, className: "thumbnail", "aria-hidden": "true" });
  const bars = h("span", { className: "bars", "aria-hidden": "true" });
  const name = h("span", { className: "name" }, String(head));
  const open = (): void => {
    app.choose(site, head);
    app.view.value = "map";
  };
  return { site, head, canvas, bars, measures: null, element: h("button", { className: "card", onclick: open }, canvas, name, bars) };
}

function lay(app: App, grid: HTMLElement, chosen: Card[], grouped: boolean): void {
  if (!grouped) return replace(grid, h("div", { className: "row" }, ...chosen.map(({ element }) => element)));
  const sites = [...new Set(chosen.map(({ site }) => site))];
  replace(grid, ...sites.map((site) => {
    const { layer, kind, name, formula } = app.trace.sites[site]!;
    const title = h("h2", { title: name }, `${app.say("layer")} ${layer} · ${app.say(`kind.${kind}`)}`, h("small", {}, h("bdi", {}, name), formula ? " · " : "", formula));
    return h("section", { className: "layer" }, title, h("div", { className: "row" }, ...chosen.filter((each) => each.site === site).map(({ element }) => element)));
  }));
}

function label(app: App, cards: Card[]): void {
  const largest = (name: Measure): number => Math.max(...cards.map(({ measures }) => measures?.[name] ?? 0), 1e-9);
  const most = Object.fromEntries(BARS.map((name) => [name, name === "sink" ? 1 : largest(name)])) as Record<Measure, number>;
  for (const { element, bars, measures, site, head } of cards) {
    const numbers = Object.fromEntries(BARS.map((name) => [name, measures ? shown(measures[name], 3) : "…"]));
    const text = app.say("overview.card", { site: app.trace.sites[site]!.name, head, ...numbers });
    element.setAttribute("aria-label", text);
    element.title = MEASURES.map((name) => `${app.say(`measure.${name}`)} ${measures ? shown(measures[name], 3) : "…"}`).join("\n");
    replace(bars, ...BARS.map((name) => {
      const fill = h("span", { className: `fill ${name}` });
      fill.style.width = `${Math.round(100 * Math.min(1, (measures?.[name] ?? 0) / most[name]))}%`;
      return h("span", { className: "measure" }, fill);
    }));
  }
}

async function draw(app: App, { site, head, canvas }: Card): Promise<void> {
  const answer = await app.provider.overview(site, head).catch(() => null);
  if (!answer) return;
  const { queries, keys } = app.trace.sites[site]!;
  const size = 2 ** overviewLevel(queries, keys);
  const [rows, columns] = [Math.ceil(queries / size), Math.ceil(keys / size)];
  canvas.width = Math.max(columns, 1);
  canvas.height = Math.max(rows, 1);
  const theme = app.theme.peek();
  const scale = app.scale.peek() === "lift" ? "log" : app.scale.peek();
  const painted = pixels(answer.codes, { scale, theme, pool: "peak" }, null, THUMBNAIL);
  const context = canvas.getContext("2d")!;
  const whole = h("canvas", { width: THUMBNAIL, height: THUMBNAIL });
  whole.getContext("2d")!.putImageData(new ImageData(new Uint8ClampedArray(painted.buffer as ArrayBuffer), THUMBNAIL, THUMBNAIL), 0, 0);
  context.fillStyle = css(INK[theme].hidden);
  context.fillRect(0, 0, columns, rows);
  context.drawImage(whole, 0, 0);
  canvas.dataset["drawn"] = "yes";
}
