/** Numbers of steps: three digits, in aligned columns, as in Python's `inspect/step/number.py`. Ties are rounded away from 0. */

import type { Figure } from "./provider";

const DIGITS = 3;

/** Numbers with the decimals that the largest one needs for three digits. A number other than 0 is never shown as 0. */
export function aligned(values: readonly Figure[]): string[] {
  const finite = values.filter((value): value is number => typeof value === "number" && Number.isFinite(value));
  const largest = Math.max(0, ...finite.map(Math.abs));
  if (finite.every(Number.isInteger) && largest < 1e5) return values.map((value) => fixed(value, 0));
  const places = largest ? DIGITS - 1 - Math.floor(Math.log10(largest)) : 0;
  if (places > 6 || largest >= 1e6) return values.map((value) => power(value, DIGITS));
  return values.map((value) => fixed(value, Math.max(places, 0)));
}

/** Rows of numbers with the same decimals in all rows. */
export function together(rows: readonly (readonly Figure[])[]): string[][] {
  const flat = aligned(rows.flat());
  let at = 0;
  return rows.map((row) => row.map(() => flat[at++]!));
}

/** One number within a formula. */
export const three = (value: number): string => aligned([value])[0]!;

function fixed(value: Figure, places: number): string {
  if (typeof value === "string") return value;
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value > 0 ? "∞" : "−∞";
  const text = value.toFixed(places);
  if (value && !Number(text)) return power(value, 1);
  return text.replace("-", "−");
}

function power(value: Figure, digits: number): string {
  if (typeof value === "string" || !Number.isFinite(value) || !value) return fixed(value, 0);
  return value.toExponential(digits - 1).replace("+", "").replaceAll("-", "−");
}

const ZEROS = [0x0660, 0x06f0];

/** A number as people write it: with a comma or a point, any minus sign, and Arabic or Persian digits; NaN if it is none. */
export function read(text: string): number {
  const digits = text.replace(/[\u0660-\u0669\u06f0-\u06f9]/g, (digit) => String(digit.codePointAt(0)! - ZEROS.findLast((zero) => zero <= digit.codePointAt(0)!)!));
  const plain = digits.trim().replace(/^[−–]/, "-").replace(/[٫,]/, ".").replace(/e[−–]/i, "e-");
  return /^[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?$/i.test(plain) ? Number(plain) : NaN;
}
