/** The one number of a row from which its weights follow: what `statistic` of each normaliser does in Python. */

import type { Normaliser } from "../provider";

const HALVINGS = 200;

/** `scores` are those of the visible keys, and `keys` their indices. */
export function statisticOf(normaliser: Normaliser, scores: readonly number[], keys: readonly number[]): number {
  switch (normaliser.kind) {
    case "softmax":
      return logSum(scores, normaliser.temperature ?? 1);
    case "hard":
      if (normaliser.mode === "sample" || normaliser.mode === "gumbel") return logSum(scores, normaliser.mode === "sample" ? (normaliser.temperature ?? 1) : 1);
      return scores.length ? keys[scores.indexOf(Math.max(...scores))]! : -1;
    case "relu":
      return scores.reduce((sum, score) => sum + Math.max(0, score), 0);
    case "proportional":
      return scores.reduce((sum, score) => sum + score, 0);
    case "sigmoid":
      return 0;
    case "sparsemax":
      return sparsemax(scores);
    case "entmax":
      return entmax(scores, normaliser.alpha ?? 1.5);
  }
}

function logSum(scores: readonly number[], temperature: number): number {
  const top = Math.max(...scores) / temperature;
  if (!Number.isFinite(top)) return top;
  return top + Math.log(scores.reduce((sum, score) => sum + Math.exp(score / temperature - top), 0));
}

/** τ with Σ max(0, e − τ) = 1, from the largest scores that stay above it. */
function sparsemax(scores: readonly number[]): number {
  let threshold = Infinity;
  let sum = 0;
  [...scores].sort((a, b) => b - a).forEach((score, at) => {
    sum += score;
    if (score * (at + 1) > sum - 1) threshold = (sum - 1) / (at + 1);
  });
  return threshold;
}

/** τ with Σ max(0, (α − 1) e − τ)^(1 / (α − 1)) = 1, by halving the range that contains it. */
function entmax(scores: readonly number[], alpha: number): number {
  const scaled = scores.map((score) => score * (alpha - 1));
  let high = Math.max(...scaled);
  if (!Number.isFinite(high)) return Infinity;
  let low = high - 1;
  for (let n = 0; n < HALVINGS; n++) {
    const middle = (low + high) / 2;
    const sum = scaled.reduce((total, score) => total + Math.max(0, score - middle) ** (1 / (alpha - 1)), 0);
    if (sum > 1) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
