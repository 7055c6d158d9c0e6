/** Formulas as MathML text. Names and numbers are escaped; nothing else comes in from outside. */

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
const escaped = (text: string): string => text.replace(/[&<>"]/g, (character) => escapes[character]!);

export const mi = (name: string): string => `<mi>${escaped(name)}</mi>`;
export const mn = (value: number | string): string => `<mn>${escaped(String(value))}</mn>`;
export const mo = (sign: string): string => `<mo>${escaped(sign)}</mo>`;
export const row = (...parts: string[]): string => `<mrow>${parts.join("")}</mrow>`;
export const sub = (base: string, index: string): string => `<msub>${base}${index}</msub>`;
export const sup = (base: string, index: string): string => `<msup>${base}${index}</msup>`;
export const frac = (over: string, under: string): string => `<mfrac>${over}${under}</mfrac>`;
export const sum = (index: string, body: string): string => row(`<munder>${mo("∑")}${mi(index)}</munder>`, body);
export const call = (name: string, ...inside: string[]): string => row(mi(name), mo("("), ...inside, mo(")"));
export const math = (...parts: string[]): string => `<math display="block">${row(...parts)}</math>`;

const DIGITS = "₀₁₂₃₄₅₆₇₈₉";
export const subscript = (value: number): string => [...String(value)].map((digit) => DIGITS[Number(digit)] ?? digit).join("");
