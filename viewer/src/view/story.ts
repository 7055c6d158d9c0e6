/** The first view: what the model read and what it wrote, in whole words, and what each word looked at. */

import { calledOff, Latest, shown, type App } from "../app";
import { block } from "../block";
import { h, replace, svgOf } from "../dom";
import { meanOf } from "../link";
import type { Sequence } from "../provider";
import { effect, signal, untracked } from "../signal";
import { drawable, tellable } from "../story/tellable";
import { settled } from "../story/telling";
import { percent, pooled, wordsOf, type Word } from "../story/word";
import { Play } from "./play";
import { scenes } from "./scenes";
import { LEAST, Sentence, type Place } from "./sentence";

/** Words that the reading names. */
const NAMED = 3;

export function story(app: App): { element: HTMLElement; close: () => void } {
  if (drawable(app.sequence("query")) || drawable(app.sequence("key"))) return scenes(app, true);
  const picture = h("div", { className: "picture" });
  const told = h("p", { className: "told" });
  const where = h("p", { className: "where" });
  const play = new Play(app);
  const element = h("section", { className: "storyview", "aria-label": app.say("view.story") }, h("div", { className: "stagecard" }, picture, told, play.element, where));
  const latest = new Latest();
  const current = signal<{ sentence: Sentence; keys: Word[]; queries: Word[] } | null>(null);
  const stops = [
    effect(() => {
      const [site, head, heads] = [app.current, app.head.value, app.heads.value];
      untracked(() => {
        current.peek()?.sentence.close();
        if (!tellable(app.trace, site)) {
          current.value = app.telling.value = null;
          return replace(picture, h("p", { className: "note" }, app.say("story.long")));
        }
        const own = site.query === site.key && app.trace.sequences[site.query] !== undefined;
        const keys = words(app, "key", app.sequence("key"), site.keys);
        const queries = own ? keys : words(app, "query", app.sequence("query"), site.queries);
        const sentence = new Sentence(app, { keys, queries: own ? null : queries });
        current.value = { sentence, keys, queries };
        replace(picture, sentence.element);
        // Words that look ahead cannot be hidden until they are written.
        const grows = !own || site.visibility.native?.right === 0;
        const show = (words: number | null): Promise<void> => {
          app.written.value = grows ? words : null;
          app.word.value = words ? { side: "query", at: words - 1 } : null;
          sentence.element.classList.toggle("playing", words !== null);
          return settled();
        };
        app.telling.value = queries.length > 1 ? { count: queries.length, show } : null;
        const stop = latest.next();
        const numbers = heads === "mean" ? Array.from({ length: site.heads }, (_, each) => each) : [head];
        Promise.all(numbers.map((each) => block(app.provider, app.site.peek(), each, [0, site.queries], [0, site.keys], 0, stop)))
          .then((weights) => !stop.aborted && sentence.weigh(pooled(meanOf(weights), queries, keys)))
          .catch((error: unknown) => !calledOff(error) && replace(told, app.failure(error)));
      });
    }),
    effect(() => {
      const here = current.value;
      const active = here?.sentence.active ?? null;
      const text = here && active ? read(app, here, active) : app.say(here && here.queries === here.keys ? "story.choose.within" : "story.choose");
      told.textContent = text;
      told.classList.toggle("note", !active);
      if (active) app.said.value = text;
    }),
    effect(() => replace(where, key(), h("span", {}, placed(app)))),
  ];
  return {
    element,
    close: () => {
      latest.next();
      play.close();
      app.telling.value = null;
      current.peek()?.sentence.close();
      for (const stop of stops) stop();
    },
  };
}

const words = (app: App, side: "query" | "key", sequence: Sequence | undefined, length: number): Word[] => wordsOf(sequence, length, (at) => app.label(side, at));

/** One word's lines in a sentence. */
function read(app: App, { sentence, keys, queries }: { sentence: Sentence; keys: Word[]; queries: Word[] }, place: Place): string {
  const [own, others] = place.side === "query" ? [queries, keys] : [keys, queries];
  const strong = sentence.sharesOf(place).map((share, at) => [share, at] as const).filter((each): each is readonly [number, number] => each[0] !== null && each[0] >= LEAST).sort((a, b) => b[0] - a[0]);
  const name = ({ text, mark }: Word): string => (mark === "end" || mark === "begin" || mark === "gap" ? app.say(`story.${mark}`) : text);
  const list = strong.slice(0, NAMED).map(([share, at]) => `\u2068${name(others[at]!)}\u2069 \u2066${percent(share)}\u2069`).join(app.say("story.and"));
  return list ? app.say(place.side === "query" ? "story.looked" : "story.met", { word: name(own[place.at]!), list }) : app.say("nothing");
}

/** Which weights these are, in words of people. */
function placed(app: App): string {
  const site = app.current;
  const like = app.trace.sites.filter(({ kind, query, key, posterior }) => kind === site.kind && query === site.query && key === site.key && posterior === site.posterior);
  const layer = like.length > 1 ? app.say("story.layer", { layer: like.indexOf(site) + 1, layers: like.length }) : "";
  const head = site.heads === 1 ? "" : app.heads.value === "mean" ? app.say("story.mean", { count: site.heads }) : app.say("story.head", { head: app.head.value + 1, count: site.heads });
  const shows = site.posterior ? app.say("shows.posterior") : site.shows === "implied" ? app.say("shows.implied") : site.drawn ? app.say("shows.drawn") : "";
  return [layer, head, shows].filter(Boolean).join(" · ");
}

/** How thick a line is for its weight. */
function key(): HTMLElement {
  const sample = (share: number): HTMLElement => {
    const box = svgOf("svg", { class: "sample", viewBox: "0 0 26 12", "aria-hidden": "true" });
    box.append(svgOf("path", { d: "M2 6H24", class: "thread", "stroke-width": 1.5 + 10 * share }));
    return h("span", { className: "weightkey", dir: "ltr" }, box, ` ${shown(100 * share)}%`);
  };
  return h("span", { className: "weights" }, ...[0.05, 0.25, 0.75].map(sample));
}
