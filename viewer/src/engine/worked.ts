/** Formulas with numbers in the place of letters: what one would write on paper. */

import { three } from "../number";
import { frac, mi, mn, mo, row, sup } from "./mathml";

/** A number among others; a negative one in brackets. */
export const figure = (value: number): string => (value < 0 ? row(mo("("), mn(three(value)), mo(")")) : mn(three(value)));
/** The result of a formula, or its only number. */
export const result = (value: number): string => mn(three(value));
export const times = (...factors: number[]): string => row(...factors.flatMap((value, at) => [...(at ? [mo("·")] : []), figure(value)]));
export const over = (above: number, below: number): string => frac(result(above), result(below));
export const power = (exponent: string): string => sup(mi("e"), exponent);
export const is = (...parts: string[]): string => row(...parts.flatMap((part, at) => [...(at ? [mo("=")] : []), part]));

/** Terms with + between them; dots for others that are not shown. */
export const plus = (terms: string[], more = false): string => row(...[...terms, ...(more ? [mo("…")] : [])].flatMap((term, at) => [...(at ? [mo("+")] : []), term]));
export const list = (terms: string[], more = false): string => row(...[...terms, ...(more ? [mo("…")] : [])].flatMap((term, at) => [...(at ? [mo(",")] : []), term]));
