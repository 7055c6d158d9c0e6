/** What is switched off, and what that did to the answer. */

import type { Ablation, Span, Trace } from "../provider";

export interface Off {
  /** Positions, in order. */
  tokens: readonly number[];
  heads: readonly (readonly [site: number, head: number])[];
}
export const NOTHING: Off = { tokens: [], heads: [] };
export const isEmpty = ({ tokens, heads }: Off): boolean => tokens.length + heads.length === 0;

/** Whether all of a word is off. */
export const isOff = ({ tokens }: Off, [begin, end]: Span): boolean => {
  for (let at = begin; at < end; at++) if (!tokens.includes(at)) return false;
  return end > begin;
};

/** A word off, or on again; `alone`: nothing else stays off. */
export function wordSwitched(off: Off, span: Span, alone = false): Off {
  const own = Array.from({ length: span[1] - span[0] }, (_, at) => span[0] + at);
  const others = off.tokens.filter((at) => at < span[0] || at >= span[1]);
  if (isOff(off, span)) return { ...off, tokens: others };
  return alone ? { tokens: own, heads: [] } : { ...off, tokens: [...others, ...own].sort((a, b) => a - b) };
}

export const isHeadOff = ({ heads }: Off, site: number, head: number): boolean => heads.some(([s, n]) => s === site && n === head);
export function headSwitched(off: Off, site: number, head: number): Off {
  const others = off.heads.filter(([s, n]) => s !== site || n !== head);
  return { ...off, heads: others.length < off.heads.length ? others : [...others, [site, head]] };
}

/** For the address: positions, and heads as site-head. */
export const addressOf = ({ tokens, heads }: Off): string => [...tokens, ...heads.map((pair) => pair.join("-"))].join(".");

/** What an address says, as far as the trace has it. */
export function offOf(address: string | null, { ablates, sequences, sites, ablations }: Trace): Off {
  const count = (ablates && sequences[ablates]?.labels?.length) || 0;
  const [tokens, heads] = [new Set<number>(), new Map<string, readonly [number, number]>()];
  for (const part of address?.split(".") ?? []) {
    const [, first, second] = /^(\d{1,6})(?:-(\d{1,6}))?$/.exec(part) ?? [];
    if (first === undefined) continue;
    const [at, head] = [Number(first), Number(second)];
    if (second === undefined && at < count) tokens.add(at);
    if (second !== undefined && count && !ablations && head < (sites[at]?.heads ?? 0)) heads.set(part, [at, head]);
  }
  return tokens.size < count ? { tokens: [...tokens].sort((a, b) => a - b), heads: [...heads.values()] } : NOTHING;
}

/** The answer that a page without a model has for these switches. */
export const known = (ablations: readonly Ablation[], { tokens, heads }: Off): Ablation | null =>
  (heads.length ? null : ablations.find(({ tokens_off: off }) => off.length === tokens.length && off.every((at, place) => at === tokens[place]))) ?? null;

/** Which words of one text the other has not at their place: those outside the longest common subsequence. */
export function differing(words: readonly string[], others: readonly string[]): boolean[] {
  const lengths = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
  for (let i = words.length - 1; i >= 0; i--)
    for (let j = others.length - 1; j >= 0; j--) lengths[i]![j] = words[i] === others[j] ? lengths[i + 1]![j + 1]! + 1 : Math.max(lengths[i + 1]![j]!, lengths[i]![j + 1]!);
  const found = words.map(() => true);
  for (let i = 0, j = 0; i < words.length && j < others.length; ) {
    if (words[i] === others[j]) [found[i++], j] = [false, j + 1];
    else if (lengths[i + 1]![j]! >= lengths[i]![j + 1]!) i++;
    else j++;
  }
  return found;
}

/** What the answer before lost in log-probability; null where nothing was scored. */
export const costOf = ({ log_probability: now, log_probability_before: before }: Ablation): number | null => (now === null || before === null ? null : before - now);
