/** Two models and one text: both stories, one above the other; a word that is pointed at is lit in both. */

import { openingOf, type App, type Other } from "../app";
import { h, replace } from "../dom";
import { modelOf } from "../name";
import { effect, signal, untracked } from "../signal";
import { NOTHING } from "../story/switching";
import { wordsOf } from "../story/word";
import { commonUnits, OUTSIDE, type Units } from "../text-unit";
import type { Link } from "./sentence";
import { story } from "./story";

export function pair(app: App, companion: Other): { element: HTMLElement; close: () => void } {
  const { head } = openingOf(companion.trace);
  const own = { heads: signal(head === null ? "mean" : "one"), word: signal(null), off: signal(NOTHING), telling: signal(null), written: signal(null), companion: null };
  const apps = [app, app.beside(companion, own as Partial<App>)] as const;
  const pointed: Link["pointed"] = signal(null);
  const known = new Map<string, Units | null>();
  const unitsOf = (side: "query" | "key"): Units | null => {
    const name = apps.map((each) => each.current[side]).join("/");
    if (!known.has(name)) known.set(name, commonUnits(apps[0].sequence(side), apps[1].sequence(side), "word"));
    return known.get(name)!;
  };
  const answer = (of: App): string[] => {
    const { queries, query } = of.current;
    return wordsOf(of.trace.sequences[query], queries, String).map(({ text, notes }) => [text, ...notes].join("\n"));
  };
  const told = h("p", { className: "answers" });
  const names = apps.map((each) => h("h2", {}, h("bdi", {}, modelOf(each.trace))));
  const stories = untracked(() => apps.map((each, at) => {
    const link: Link = {
      pointed,
      unit: (side, [begin]) => {
        const units = unitsOf(side);
        const unit = (at ? units?.other : units?.one)?.[begin] ?? OUTSIDE;
        return unit === OUTSIDE ? null : unit;
      },
    };
    return story(each, { link, answer: () => answer(apps[at ? 0 : 1]) });
  }));
  const stop = effect(() => {
    const [one, other] = apps.map((each) => answer(each).join("\0"));
    const crossing = apps.every(({ current }) => current.query !== current.key);
    const compare = h("button", { onclick: () => (app.view.value = "compare") }, app.say("pair.compare"));
    // Each has a name of its own, for those who go from region to region.
    stories.forEach(({ element }, at) => element.setAttribute("aria-label", `${app.say("view.story")} ${at + 1}: ${modelOf(apps[at]!.trace)}`));
    replace(told, crossing ? app.say(one === other ? "pair.same" : "pair.differ") : "", " ", compare);
  });
  return {
    element: h("div", { className: "pairview" }, told, ...stories.map(({ element }, at) => h("article", { tabIndex: -1 }, names[at]!, element))),
    close: () => {
      stop();
      for (const each of stories) each.close();
    },
  };
}
