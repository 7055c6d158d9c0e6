/** From a score and its row's statistic to a weight: what `tile` of each normaliser does in Python. */

import type { Normaliser } from "../provider";

/** The weight of a visible key. `key` is its index, which hard attention compares with the statistic. */
export type Finish = (score: number, statistic: number, key: number) => number;

export function finisher(normaliser: Normaliser): Finish {
  switch (normaliser.kind) {
    case "softmax":
      return tempered(normaliser.temperature ?? 1);
    case "relu":
      if (normaliser.normalised === false) return (score) => Math.max(0, score);
      return (score, total) => Math.max(0, score) / (total > 0 ? total : 1);
    case "sigmoid": {
      const bias = normaliser.bias ?? 0;
      return (score) => 1 / (1 + Math.exp(-score - bias));
    }
    case "sparsemax":
      return (score, threshold) => (Number.isFinite(threshold) ? Math.max(0, score - threshold) : nothing(threshold));
    case "entmax": {
      const alpha = normaliser.alpha ?? 1.5;
      return (score, threshold) =>
        Number.isFinite(threshold) ? Math.max(0, score * (alpha - 1) - threshold) ** (1 / (alpha - 1)) : nothing(threshold);
    }
    case "hard":
      if (normaliser.mode === "sample") return tempered(normaliser.temperature ?? 1);
      if (normaliser.mode === "gumbel") return tempered(1);
      return (_score, chosen, key) => (key === chosen ? 1 : 0);
    case "proportional": {
      const eps = normaliser.eps ?? 0;
      return (score, sum) => score / (sum + eps > 0 ? sum + eps : 1);
    }
  }
}

function tempered(temperature: number): Finish {
  // A row that sees nothing, or scores of −∞ alone, has −∞ and weighs 0; one with a score of +∞ has no weights.
  return (score, logSum) => (logSum === -Infinity ? 0 : logSum === Infinity ? NaN : Math.exp(score / temperature - logSum));
}

/** The weight in a row whose threshold is no number to subtract: 0 where it sees nothing. */
const nothing = (threshold: number): number => (Number.isNaN(threshold) ? NaN : 0);
