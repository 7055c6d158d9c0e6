/** Every view that a reader can come to, each once: what phones, paper and axe are tried on. */


export interface Stop {
  page: string;
  /** The address after its page, without language and theme. */
  hash: string;
  /** What is there once the view is. */
  sign: string;
}

const views = (page: string, hashes: Record<string, string>): Stop[] => Object.entries(hashes).map(([hash, sign]) => ({ page, hash, sign }));

export const TOUR: readonly Stop[] = [
  ...views("translation", {
    "view=story": ".threads path",
    "view=story&word=query-2": ".threads text",
    "view=overview": ".thumbnail[data-drawn]",
    "view=overview&order=behaviour": ".thumbnail[data-drawn]",
    "view=map&query=3&key=2": ".reading .weight",
    "view=text&query=3": ".running .token",
    "view=text&query=3&together=1-3-6": ".running .token",
    "view=alignment": ".words .token",
    "view=steps&query=3": ".step",
    "view=steps&step=all&query=3": ".step",
    "view=compare": "figure",
    "view=story&embed=1": ".threads path",
  }),
  ...views("causal", { "view=map&query=90&key=85": ".reading .weight", "view=text&query=90&scale=lift": ".running .hiddentoken", "view=text&query=90&scale=log": ".running .token" }),
  ...views("odd", { "view=text&query=1": ".running .token" }),
  ...views("ablations", { "view=story&off=1": ".outcome" }),
  ...views("self-attention", { "view=steps": ".step" }),
  ...views("persian", { "view=story": ".threads path", "view=alignment": ".words .token" }),
  ...views("labelled", { "view=story": ".threads path" }),
  ...views("gap", { "view=story": ".threads path" }),
  ...views("captioned", { "view=story": "canvas.scene", "view=scene": "canvas.scene" }),
  ...views("patches", { "view=scene": "canvas.scene" }),
  ...views("speech", { "view=story": "canvas.scene", "view=scene": "canvas.scene" }),
  ...views("club", { "view=scene": "canvas.scene" }),
  ...views("molecule", { "view=story": "canvas.scene", "view=scene": "canvas.scene" }),
];
