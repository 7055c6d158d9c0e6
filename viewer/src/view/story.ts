/** The first view: what the model read and what it wrote, in whole words, and what each word looked at. */

import { calledOff, Latest, shown, type App } from "../app";
import { block } from "../block";
import { h, replace, svgOf } from "../dom";
import { meanOf } from "../link";
import type { Sequence } from "../provider";
import { effect, signal, untracked } from "../signal";
import { differing, isEmpty } from "../story/switching";
import { drawable, tellable } from "../story/tellable";
import { settled } from "../story/telling";
import { percent, pooled, wordsOf, type Word } from "../story/word";
import { Play } from "./play";
import { scenes } from "./scenes";
import { pair } from "./pair";
import { nothing } from "./reading";
import { LEAST, Sentence, type Link, type Place } from "./sentence";
import { Switches } from "./switches";

/** Words that the reading names. */
const NAMED = 3;

export interface Beside {
  link: Link;
  /** The words that the other model wrote. */
  answer: () => string[];
}

export function story(app: App, beside: Beside | null = null): { element: HTMLElement; close: () => void } {
  if (app.companion && !beside) return pair(app, app.companion);
  if (drawable(app.sequence("query")) || drawable(app.sequence("key"))) return scenes(app, true);
  const picture = h("div", { className: "picture" });
  const told = h("p", { className: "told" });
  const where = h("p", { className: "where" });
  const play = new Play(app);
  const switches = new Switches(app);
  const element = h("section", { className: "storyview", "aria-label": app.say("view.story") }, h("div", { className: "stagecard" }, picture, told, switches.element, play.element, where));
  const latest = new Latest();
  let last: string | null = null;
  const current = signal<{ sentence: Sentence; keys: Word[]; queries: Word[] } | null>(null);
  const stops = [
    effect(() => {
      const [number, site, head, heads, off, result] = [app.site.value, app.current, app.head.value, app.heads.value, app.off.value, switches.result.value];
      const switched = result && result.off === off && result.site === number && result.head === (heads === "mean" ? null : head) ? result : null;
      // The answer before stays until the new one is there.
      if (!isEmpty(off) && !switched && current.peek() && switches.waiting.value) return;
      untracked(() => {
        const before = current.peek()?.sentence;
        const place = before?.place;
        before?.close();
        if (!tellable(app.trace, site)) {
          current.value = app.telling.value = null;
          return replace(picture, h("p", { className: "note" }, app.say("story.long")));
        }
        const own = site.query === site.key && app.trace.sequences[site.query] !== undefined;
        const sequences = { ...app.trace.sequences, ...switched?.ablation.sequences };
        const wordsAt = (side: "query" | "key"): Word[] => words(app, side, sequences[site[side]], sequences[site[side]]?.labels?.length ?? site[side === "query" ? "queries" : "keys"]);
        const keys = wordsAt("key");
        const queries = own ? keys : wordsAt("query");
        const said = ({ text, notes }: Word): string => [text, ...notes].join("\n");
        const before_ = switched ? words(app, "query", app.sequence("query"), site.queries).map(said) : !own && beside ? beside.answer() : null;
        const fresh = before_ ? differing(queries.map(said), before_) : [];
        const sentence = new Sentence(app, { keys, queries: own ? null : queries, fresh, ...(beside && { link: beside.link }), can: (at) => switches.has(keys[at]!.span), press: (at) => switches.toggle(keys[at]!.span) });
        current.value = { sentence, keys, queries };
        replace(picture, sentence.element);
        if (place) sentence.take(place);
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
        if (switched) return switched.weighed ? sentence.weigh(pooled(switched.ablation.weights, queries, keys)) : undefined;
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
      // A sentence that was rewritten under a word says what became of the answer, not the word again.
      const name = active && `${active.side}-${active.at}`;
      if (name && name !== last) app.said.value = text;
      last = name;
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
      switches.close();
      for (const stop of stops) stop();
    },
  };
}

const words = (app: App, side: "query" | "key", sequence: Sequence | undefined, length: number): Word[] => wordsOf(sequence, length, (at) => app.label(side, at));

/** One word's lines in a sentence. */
function read(app: App, { sentence, keys, queries }: { sentence: Sentence; keys: Word[]; queries: Word[] }, place: Place): string {
  const [own, others] = place.side === "query" ? [queries, keys] : [keys, queries];
  const shares = sentence.sharesOf(place);
  const strong = shares.map((share, at) => [share, at] as const).filter((each): each is readonly [number, number] => each[0] !== null && each[0] >= LEAST).sort((a, b) => b[0] - a[0]);
  const name = ({ text, mark }: Word): string => (mark === "end" || mark === "begin" || mark === "gap" ? app.say(`story.${mark}`) : text);
  const list = strong.slice(0, NAMED).map(([share, at]) => `\u2068${name(others[at]!)}\u2069 \u2066${percent(share)}\u2069`).join(app.say("story.and"));
  return list ? app.say(place.side === "query" ? "story.looked" : "story.met", { word: name(own[place.at]!), list }) : nothing(app, shares);
}

/** Which weights these are, in words of people. */
function placed(app: App): string {
  const site = app.current;
  const like = app.trace.sites.filter(({ kind, query, key, posterior }) => kind === site.kind && query === site.query && key === site.key && posterior === site.posterior);
  const layer = like.length > 1 ? app.say("story.layer", { layer: like.indexOf(site), last: like.length - 1 }) : "";
  const head = site.heads === 1 ? "" : app.heads.value === "mean" ? app.say("story.mean", { count: site.heads }) : app.say("story.head", { head: app.head.value, last: site.heads - 1 });
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
