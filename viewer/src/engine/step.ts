/** The formula of one row, term by term, with its real numbers. Indices count from 0, as everywhere in traces. */

import type { Site, Step } from "../provider";
import type { Head } from "./head";
import { call, frac, math, mi, mn, mo, row, sub, subscript, sum, sup } from "./mathml";
import { figure, is, list, over, plus, power, result, times } from "./worked";

/** So many keys and features are shown; the rest is folded. */
export const KEYS = 12;
export const FEATURES = 8;

interface Row {
  head: Head;
  query: number;
  /** The keys that are shown: all, or those that weigh most, in their order. */
  keys: number[];
  /** The key whose numbers are put into the formulas. */
  focus: number;
  scores: Float64Array;
  weights: Float64Array;
}

/** `keys` and `focus` choose other keys than those with the largest weights. */
export function stepsOf(head: Head, query: number, keys?: number[], focus?: number): Step[] {
  const scores = new Float64Array(head.keys);
  const weights = new Float64Array(head.keys);
  head.scores(query, 0, head.keys, scores);
  head.row(query, 0, head.keys, weights);
  const shown = keys ?? shownKeys(weights);
  const largest = shown.reduce((best, key) => (weights[key]! > weights[best]! ? key : best), shown[0] ?? 0);
  const here: Row = { head, query, keys: shown, focus: focus !== undefined && shown.includes(focus) ? focus : largest, scores, weights };
  const all = [...scoreSteps(here), ...visibleSteps(here), ...normaliserSteps(here), ...weightSteps(here), ...contextSteps(here)];
  return all.map((told) => withKeys(told, here.keys));
}

export function shownKeys(weights: Float64Array): number[] {
  const all = Array.from(weights.keys());
  if (all.length <= KEYS) return all;
  return all.sort((a, b) => weights[b]! - weights[a]! || a - b).slice(0, KEYS).sort((a, b) => a - b);
}

const q = (i: number): string => sub(mi("q"), mn(i));
const k = sub(mi("k"), mi("j"));
const pair = (i: number): string => row(mn(i), mi("j"));
const e = (i: number): string => sub(mi("e"), pair(i));
const weight = (i: number): string => sub(mi("α"), pair(i));

function scoreSteps(here: Row): Step[] {
  const { head, query: i, keys } = here;
  const steps: Step[] = [];
  const picked = (values: (key: number) => number): number[] => keys.map(values);
  const before = (j: number): number => here.scores[j]! - head.biasOf(i, j);
  if (head.dense) {
    steps.push({ ...step(`e${subscript(i)}ⱼ`, math(e(i)), picked(before), "The scores, recorded pair by pair: this mechanism has no shorter form."), part: "scores" });
  } else {
    steps.push(...(head.vector ? additiveSteps(here, before) : productSteps(here, before)));
  }
  if (head.site.bias) {
    const bias = sub(mi("b"), pair(i));
    const about = head.site.bias.kind === "distance" ? "A bias by the distance from query to key." : "A bias by the pair.";
    steps.push(step(`b${subscript(i)}ⱼ`, math(bias), picked((j) => head.biasOf(i, j)), about));
    steps.push(step(`e${subscript(i)}ⱼ`, math(e(i), mo("+"), bias), picked((j) => here.scores[j]!), "Score and bias.", of(here, plus([result(before(here.focus)), figure(head.biasOf(i, here.focus))]), here.scores[here.focus]!)));
  }
  return steps;
}

function vectors(here: Row): Step[] {
  const { head, query: i, keys } = here;
  const folded = head.feature > FEATURES ? ` Its first ${FEATURES} of ${head.feature} numbers.` : "";
  const most = head.keys > keys.length ? ` The ${keys.length} keys that weigh most, of ${head.keys}.` : "";
  const query = head.query.subarray(i * head.feature, i * head.feature + Math.min(FEATURES, head.feature));
  const rows = keys.map((j) => Array.from(head.key.subarray(j * head.feature, j * head.feature + Math.min(FEATURES, head.feature))));
  return [
    { ...step(`q${subscript(i)}`, math(q(i)), Array.from(query), `What the query asks for.${folded}`), part: "query" },
    { ...step("kⱼ", math(k), rows, `What each key offers.${most}${folded}`), part: "key" },
  ];
}

function productSteps(here: Row, before: (key: number) => number): Step[] {
  const { head, query: i, keys } = here;
  const { feature } = head;
  const factor = head.site.score.kind === "product" ? head.site.score.factor : 1;
  const product = (j: number, f: number): number => head.query[i * feature + f]! * head.key[j * feature + f]!;
  const shown = Math.min(FEATURES, feature);
  const rest = (j: number): number => range(shown, feature).reduce((total, f) => total + product(j, f), 0);
  const terms = keys.map((j) => [...range(0, shown).map((f) => product(j, f)), ...(feature > shown ? [rest(j)] : [])]);
  const term = row(sub(mi("q"), row(mn(i), mi("f"))), mo("·"), sub(mi("k"), row(mi("j"), mi("f"))));
  const sums = keys.map((j) => range(0, feature).reduce((total, f) => total + product(j, f), 0));
  const dot = sums[keys.indexOf(here.focus)]!;
  const pairs = range(0, shown).map((f) => times(head.query[i * feature + f]!, head.key[here.focus * feature + f]!));
  const steps = [
    ...vectors(here),
    step("q·k", math(term), terms, feature > shown ? "Number by number; the last sums the rest." : "Number by number.", worked(here, list(range(0, shown).map((f) => is(pairs[f]!, result(product(here.focus, f)))), feature > shown))),
    step(`q${subscript(i)}·kⱼ`, math(sum("f", term)), sums, "Their sum: how well query and key match.", of(here, plus(pairs, feature > shown), dot)),
  ];
  if (factor !== 1) {
    const about = `Scaled by ${short(factor)}.`;
    steps.push(step(`e${subscript(i)}ⱼ`, math(e(i), mo("="), mn(short(factor)), mo("·"), q(i), mo("·"), k), keys.map(before), about, of(here, times(factor, dot), before(here.focus))));
  }
  return steps;
}

function additiveSteps(here: Row, before: (key: number) => number): Step[] {
  const { head, query: i, keys } = here;
  const { feature } = head;
  const { score } = head.site;
  const name = score.kind === "leaky" ? "LeakyReLU" : "tanh";
  const bent = score.kind === "leaky" ? `What is negative is multiplied by ${short(score.slope)}.` : "Bent into −1 to 1.";
  const activated = head.activation();
  const term = (j: number, f: number): number => activated(head.query[i * feature + f]! + head.key[j * feature + f]!);
  const shown = Math.min(FEATURES, feature);
  const terms = keys.map((j) => range(0, shown).map((f) => term(j, f)));
  const inside = call(name, q(i), mo("+"), k);
  const added = range(0, shown).map((f) => call(name, plus([result(head.query[i * feature + f]!), figure(head.key[here.focus * feature + f]!)])));
  const weighed = range(0, shown).map((f) => times(head.vector![f]!, term(here.focus, f)));
  return [
    ...vectors(here),
    step(`${name}(q+k)`, math(inside), terms, `The projected query and key, added. ${bent}`, worked(here, list(range(0, shown).map((f) => is(added[f]!, result(term(here.focus, f)))), feature > shown))),
    { ...step("v", math(mi("v")), Array.from(head.vector!.subarray(0, shown)), "The trained vector v."), part: "vector" },
    step(`e${subscript(i)}ⱼ`, math(e(i), mo("="), sup(mi("v"), mi("⊤")), inside), keys.map(before), "Weighed by the trained vector v. Their sum: how well query and key match.", of(here, plus(weighed, feature > shown), before(here.focus))),
  ];
}

function visibleSteps({ head, query: i, keys, weights }: Row): Step[] {
  const hidden = weights.reduce((count, each) => count + (each < 0 ? 1 : 0), 0);
  if (hidden === 0) return [];
  const seen = keys.map((j) => (weights[j]! >= 0 ? 1 : 0));
  const about = `${head.site.visibility.code} hides ${hidden} of ${head.keys} keys: they weigh exactly 0.`;
  return [step(`visible${subscript(i)}ⱼ`, math(sub(mi("visible"), pair(i))), seen, about)];
}

function normaliserSteps(here: Row): Step[] {
  const { head, query: i, keys, scores, weights } = here;
  const { normaliser } = head.site;
  const statistic = head.statistic[i]!;
  const seen = (j: number): boolean => weights[j]! >= 0;
  const each = (value: (score: number) => number): number[] => keys.map((j) => (seen(j) ? value(scores[j]!) : 0));
  const score = scores[here.focus]!;
  const all = (value: (score: number) => number): Worked => total(here, each(value), statistic);
  switch (normaliser.kind) {
    case "softmax":
      return exponentials(here, normaliser.temperature ?? 1);
    case "hard":
      if (normaliser.mode === "sample" || normaliser.mode === "gumbel") {
        return exponentials(here, normaliser.mode === "sample" ? (normaliser.temperature ?? 1) : 1);
      }
      return [step("argmax", math(call("argmax", e(i))), statistic, "The number of the key with the largest score: it alone is looked at.")];
    case "relu": {
      const positive = step("max(0, e)", math(call("max", mn(0), mo(","), e(i))), each((score) => Math.max(0, score)), "What is negative counts nothing.", seen(here.focus) ? of(here, call("max", mn(0), mo(","), result(score)), Math.max(0, score)) : null);
      const total = step("Σ", math(sum("j", call("max", mn(0), mo(","), e(i)))), statistic, "Their sum over the visible keys.", all((each) => Math.max(0, each)));
      return normaliser.normalised === false ? [positive] : [positive, total];
    }
    case "sigmoid":
      return [step("σ(e)", math(frac(mn(1), row(mn(1), mo("+"), sup(mi("e"), row(mo("−"), e(i)))))), each((score) => 1 / (1 + Math.exp(-score - (normaliser.bias ?? 0)))), "Every key is weighed by itself; a row need not sum to 1.")];
    case "sparsemax":
      return [step("τ", math(sub(mi("τ"), mn(i))), statistic, "The threshold with which the row sums to 1; scores below it weigh nothing.")];
    case "entmax":
      return [step("τ", math(sub(mi("τ"), mn(i))), statistic, "The threshold with which the row sums to 1; scores below it weigh nothing.")];
    case "proportional":
      return [step("Σ", math(sum("j", e(i))), statistic, "Their sum over the visible keys.", all((each) => each))];
  }
}

function exponentials(here: Row, temperature: number): Step[] {
  const { head, query: i, keys, scores, weights } = here;
  const logSum = head.statistic[i]!;
  const top = Math.max(...Array.from(scores).filter((_, j) => weights[j]! >= 0)) / temperature;
  // Large scores are shown below their largest: the same weights, and numbers that can be written down.
  const shift = Math.abs(top) > 30 && Number.isFinite(top) ? top : 0;
  const base = temperature === 1 ? e(i) : row(e(i), mo("/"), mn(short(temperature)));
  const raised = sup(mi("e"), shift ? row(base, mo("−"), mn(short(shift))) : base);
  const values = keys.map((j) => (weights[j]! >= 0 ? Math.exp(scores[j]! / temperature - shift) : 0));
  const about = `Exponentials: all positive.${shift ? ` ${short(shift)} is taken from every score first, which changes no weight.` : ""}`;
  const exponent = scores[here.focus]! / temperature - shift;
  return [
    step("exp(e)", math(raised), values, about, weights[here.focus]! >= 0 ? of(here, power(result(exponent)), Math.exp(exponent)) : null),
    step("Σ exp(e)", math(sum("j", raised)), Math.exp(logSum - shift), "Their sum over the visible keys.", total(here, values, Math.exp(logSum - shift))),
  ];
}

/** What a weight is in letters, where that is short. */
function formulaOf({ normaliser, reweight }: Site, i: number): string[] {
  const temperature = normaliser.kind === "softmax" ? (normaliser.temperature ?? 1) : 1;
  const raised = sup(mi("e"), temperature === 1 ? e(i) : row(e(i), mo("/"), mn(short(temperature))));
  const positive = call("max", mn(0), mo(","), e(i));
  const plain = {
    ...{ softmax: frac(raised, sum("j", raised)), relu: normaliser.kind === "relu" && normaliser.normalised === false ? positive : frac(positive, sum("j", positive)) },
    ...{ proportional: frac(e(i), sum("j", e(i))), sparsemax: call("max", mn(0), mo(","), e(i), mo("−"), sub(mi("τ"), mn(i))), sigmoid: null, entmax: null, hard: null },
  }[normaliser.kind];
  return plain === null ? [] : [reweight ? row(plain, mo("·"), sub(mi("g"), pair(i))) : plain];
}

/** Of what the weight of the key in focus is made, where it is a quotient. */
function quotient(here: Row): string | null {
  const { head, query: i, scores, weights, focus } = here;
  const { normaliser } = head.site;
  const [score, statistic] = [scores[focus]!, head.statistic[i]!];
  if (!(weights[focus]! >= 0) || head.site.reweight) return null;
  switch (normaliser.kind) {
    case "softmax":
      return ratio(score / (normaliser.temperature ?? 1), statistic);
    case "relu":
      return normaliser.normalised === false || !statistic ? null : over(Math.max(0, score), statistic);
    case "proportional":
      return statistic ? over(score, statistic) : null;
    case "sparsemax":
      return call("max", mn(0), mo(","), plus([result(score), figure(-statistic)]));
    default:
      return null;
  }
}

/** e^x / e^y with exponents that can be written down. */
function ratio(score: number, logSum: number): string | null {
  if (!Number.isFinite(logSum)) return null;
  const shift = Math.abs(logSum) > 30 ? logSum : 0;
  return over(Math.exp(score - shift), Math.exp(logSum - shift));
}

function weightSteps(here: Row): Step[] {
  const { head, query: i, keys, weights } = here;
  const values = keys.map((j) => Math.max(0, weights[j]!));
  const steps: Step[] = [];
  if (head.site.reweight) {
    const factors = keys.map((j) => head.factorOf(i, j));
    steps.push(step("factor", math(sub(mi("g"), pair(i))), factors, head.site.reweight.kind === "gaussian" ? "The farther from where the query points, the less." : "Each weight is multiplied by this."));
  }
  const total = weights.reduce((all, each) => all + Math.max(0, each), 0);
  const about = `The weights: how much this query looks at each key. The whole row sums to ${short(total)}.`;
  const made = quotient(here);
  return [...steps, step(`α${subscript(i)}ⱼ`, math(is(weight(i), ...formulaOf(head.site, i))), values, about, made === null ? null : of(here, made, weights[here.focus]!))];
}

function contextSteps(here: Row): Step[] {
  const { head, query: i, keys, weights } = here;
  if (!head.value) return [];
  const { value, valueFeature } = head;
  const shown = Math.min(FEATURES, valueFeature);
  const at = (j: number, f: number): number => value[j * valueFeature + f]!;
  const values = keys.map((j) => range(0, shown).map((f) => at(j, f)));
  const scaled = keys.map((j) => range(0, shown).map((f) => Math.max(0, weights[j]!) * at(j, f)));
  const context = range(0, shown).map((f) => weights.reduce((total, each, j) => total + Math.max(0, each) * at(j, f), 0));
  const v = sub(mi("v"), mi("j"));
  const positive = (j: number): number => Math.max(0, weights[j]!);
  const products = range(0, shown).map((f) => is(times(positive(here.focus), at(here.focus, f)), result(positive(here.focus) * at(here.focus, f))));
  const first = is(sub(mi("c"), row(mn(i), mo(","), mn(1))), plus(keys.map((j) => times(positive(j), at(j, 0))), head.keys > keys.length), result(context[0] ?? 0));
  return [
    { ...step("vⱼ", math(v), values, "What each value says."), part: "value" },
    step("α·v", math(weight(i), v), scaled, "Each value times its weight.", worked(here, list(products, valueFeature > shown))),
    step(`c${subscript(i)}`, math(sub(mi("c"), mn(i)), mo("="), sum("j", row(weight(i), v))), context, "Their sum over all keys: the context.", shown ? worked(here, first, null) : null),
  ];
}

type Worked = Step["worked"] | null;

function step(symbol: string, mathml: string, numbers: Step["numbers"], about: string, filled: Worked = null): Step {
  return { symbol, mathml, numbers, about, ...(filled && { worked: filled }) };
}

/** A formula with the numbers of the key in focus, or of all keys. */
const worked = (here: Row, inside: string, key: number | null = here.focus): Worked => ({ mathml: math(inside), key });
const of = (here: Row, inside: string, value: number): Worked => worked(here, is(inside, result(value)));

function total(here: Row, terms: number[], sum: number): Worked {
  const seen = terms.filter((_, at) => here.weights[here.keys[at]!]! >= 0);
  return seen.length ? worked(here, is(plus(seen.map(figure), here.head.keys > here.keys.length), result(sum)), null) : null;
}

/** Symbols whose numbers are of one query or of all keys together. */
const WHOLE = /^(q[₀-₉]+|c[₀-₉]+|v|argmax|Σ.*|τ)$/;
const withKeys = (told: Step, keys: number[]): Step => ({ ...told, keys: WHOLE.test(told.symbol) ? null : keys });

const range = (from: number, to: number): number[] => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
const short = (value: number): string => String(Number(value.toPrecision(4))).replace(/-/g, "−");
