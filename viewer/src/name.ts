/** What a trace is called: its model, and the sentence that it read. */

import type { App, View } from "./app";
import { brief } from "./label";
import type { Trace } from "./provider";
import { wordsOf } from "./story/word";

/** Letters of a sentence that a title has room for. */
const [TITLE, SENTENCE] = [80, 400];

/** The run, or the shipped model, by its name; else the class of the model. */
export const modelOf = ({ pedigree }: Trace): string => String(pedigree.run || pedigree.model || "");

/** What was read, and what was written: of a text that looks at itself only the one. */
export function sentencesOf(app: App): string[] {
  const site = app.current;
  return (["key", "query"] as const).slice(0, site.key === site.query ? 1 : 2).map((side) => {
    const sequence = app.sequence(side);
    if (!sequence || sequence.kind !== "tokens") return "";
    const words = (): string => wordsOf(sequence, 0, String).filter(({ mark }) => mark !== "begin" && mark !== "end").map(({ text }) => text).join(" ");
    return brief(sequence.text ?? (sequence.labels && sequence.words ? words() : ""), SENTENCE);
  }).filter(Boolean);
}

export function titleOf(app: App): string {
  const [model, sentence] = [modelOf(app.trace), sentencesOf(app)[0]];
  return [model || app.say("title"), sentence && brief(sentence, TITLE)].filter(Boolean).join(": ");
}

/** A view of something drawn is called by what is drawn. */
export function viewName(app: App, view: View): string {
  const kind = app.sequence("key")?.kind;
  const shown = kind === undefined || kind === "tokens" ? app.sequence("query")?.kind : app.sequence("key")?.bonds ? "molecule" : kind;
  return app.say(view === "scene" && shown && shown !== "tokens" ? `view.${shown}` : `view.${view}`);
}

/** A name for files. */
export const fileName = (app: App, ending: string): string =>
  [modelOf(app.trace) || "attention", app.view.peek()].map((part) => part.replace(/[^\p{L}\p{M}\p{N}_-]+/gu, "-").replace(/^-+|-+$/g, "")).filter(Boolean).join("-") + `.${ending}`;
