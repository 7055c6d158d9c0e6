/** Weights as 16-bit codes, 16384 − 2048 log2(w): steps of 0.03 %, from 256 down 32 octaves; and codes as colours by one look-up each. */

export const STEPS = 2048;
/** The code of 1. Weights above it are of normalisers that do not divide, such as ReLU. */
export const ONE = 8 * STEPS;
export const FAINTEST = 65532;
/** The weight is not a number: something went wrong in the model. */
export const UNKNOWN = 65533;
/** Nothing in the cell is visible, or the cell lies outside of the map. */
export const HIDDEN = 65534;
/** Visible, and the weight is exactly 0. */
export const ZERO = 65535;

export function encode(weight: number): number {
  if (Number.isNaN(weight)) return UNKNOWN;
  if (!(weight > 0)) return ZERO;
  const code = Math.round(ONE - STEPS * Math.log2(weight));
  return code < 0 ? 0 : code > FAINTEST ? FAINTEST : code;
}

/** The weight of a code of a positive one. */
export const numberOf = (code: number): number => 2 ** ((ONE - code) / STEPS);

/** The weight; NaN for what is not a number, and null for what is hidden. */
export function decode(code: number): number | null {
  if (code === HIDDEN) return null;
  return code === ZERO ? 0 : code === UNKNOWN ? NaN : numberOf(code);
}

const HALF = ((): Float32Array => {
  const table = new Float32Array(65536);
  for (let bits = 0; bits < 65536; bits++) {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) table[bits] = fraction ? NaN : sign * Infinity;
    else if (exponent === 0) table[bits] = sign * fraction * 2 ** -24;
    else table[bits] = sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
  }
  return table;
})();

/** Half-precision bits as numbers: by a table, for browsers without Float16Array and as quick as with it. */
export function halves(bits: Uint16Array): Float32Array {
  const numbers = new Float32Array(bits.length);
  for (let i = 0; i < bits.length; i++) numbers[i] = HALF[bits[i]!]!;
  return numbers;
}

/** A number as half-precision bits, rounded to even: for tests and fixtures. */
export function toHalf(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  if (size >= 65520) return sign | 0x7c00;
  if (size < 2 ** -14) return sign | roundEven(size * 2 ** 24);
  const exponent = Math.floor(Math.log2(size));
  const fraction = roundEven((size / 2 ** exponent - 1) * 1024);
  return sign | (((exponent + 15) << 10) + fraction);
}

function roundEven(x: number): number {
  const low = Math.floor(x);
  const rest = x - low;
  return rest > 0.5 || (rest === 0.5 && low % 2 === 1) ? low + 1 : low;
}
