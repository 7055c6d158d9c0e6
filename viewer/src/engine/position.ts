/** The sinusoidal vector of a place, term by term: p(pos, 2j) = sin(pos / base^(2j/d)), p(pos, 2j + 1) = cos of the same. */

import type { Step } from "../provider";
import { call, frac, math, mi, mn, mo, row, sub, sup } from "./mathml";

export function positionSteps(place: number, dimension: number, base: number): Step[] {
  const rates = Array.from({ length: dimension / 2 }, (_, j) => base ** ((-2 * j) / dimension));
  const angles = rates.map((rate) => place * rate);
  const omega = sub(mi("ω"), mi("j"));
  const power = sup(mn(base), frac(row(mn(2), mi("j")), mn(dimension)));
  return [
    { symbol: "ωⱼ", mathml: math(omega, mo("="), frac(mn(1), power)), numbers: rates, about: "How fast each pair of numbers turns: the later, the slower." },
    { symbol: `${place}·ωⱼ`, mathml: math(mn(place), omega), numbers: angles, about: `The angles at position ${place}.` },
    { symbol: "sin", mathml: math(call("sin", mn(place), omega)), numbers: angles.map(Math.sin), about: "The even numbers of the vector." },
    { symbol: "cos", mathml: math(call("cos", mn(place), omega)), numbers: angles.map(Math.cos), about: "The odd numbers of the vector." },
    { symbol: "p", mathml: math(sub(mi("p"), mn(place))), numbers: angles.flatMap((angle) => [Math.sin(angle), Math.cos(angle)]), about: "Sines and cosines in turn: the vector that is added to the word." },
  ];
}
