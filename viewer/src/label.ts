/** Labels: what a piece of text is shown as, and which way it reads. */

const RIGHT_TO_LEFT = /[\u0591-\u07FF\u0860-\u08FF\uFB1D-\uFDFD\uFE70-\uFEFC\u{10800}-\u{10FFF}\u{1E800}-\u{1EFFF}]/u;
const STRONG = /[\p{L}\p{Nl}]/u;
const NAMED: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
// Persian needs the non-joiner and emoji the joiner; other format characters only hide or reorder.
const INVISIBLE = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

export type Direction = "ltr" | "rtl";

/** The text with everything invisible, or what would reorder the picture, shown as an escape. */
export function printable(text: string): string {
  if (text === "") return "∅";
  const escaped = text.replace(INVISIBLE, (character) => NAMED[character] ?? escape(character.codePointAt(0)!));
  const core = escaped.trim();
  const before = escaped.length - escaped.trimStart().length;
  const after = core ? escaped.length - escaped.trimEnd().length : 0;
  return "␣".repeat(before) + (/^\p{M}/u.test(core) ? "◌" : "") + core + "␣".repeat(after);
}

const escape = (code: number): string => (code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`);

/** As much of a label as anybody reads at once, with a mark that there is more. */
export function brief(label: string, most = 64): string {
  if (label.length <= most) return label;
  const letters = [...label];
  return letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : label;
}

/** The direction of the first strong character, as dir="auto" finds it. */
export function direction(text: string): Direction {
  const strong = [...text].find((character) => STRONG.test(character));
  return strong !== undefined && RIGHT_TO_LEFT.test(strong) ? "rtl" : "ltr";
}

/** The direction in which a sequence reads: that of most of its letters. Symbols like </s> are nobody's language. */
export function reading(labels: readonly string[]): Direction {
  let balance = 0;
  for (const label of labels.slice(0, 2000)) {
    if (/^<.+>$/.test(label)) continue;
    for (const character of label) if (STRONG.test(character)) balance += RIGHT_TO_LEFT.test(character) ? 1 : -1;
  }
  return balance > 0 ? "rtl" : "ltr";
}

const BYTE = /^<0x[0-9A-Fa-f]{2}>$/;
/** Whether a piece is a byte of a character, as <0xC5>. */
export const isByte = (piece: string): boolean => BYTE.test(piece);

/** Pieces of a word as the word, without the marks of subword vocabularies, and bytes as the characters that they are. */
export function joined(pieces: readonly string[]): string {
  if (pieces.length === 1 && [...pieces[0]!].length === 1) return pieces[0]!;
  const text = pieces.map((piece, at) => {
    const begun = at === 0 ? piece.replace(/^[▁Ġ ]/u, "") : piece.replace(/^##(?=.)/u, "");
    return at < pieces.length - 1 ? begun.replace(/(?<=.)@@$/u, "") : begun;
  });
  if (pieces.some(isByte)) {
    const bytes = text.flatMap((piece) => (isByte(piece) ? [parseInt(piece.slice(3, 5), 16)] : [...new TextEncoder().encode(piece)]));
    try {
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes));
    } catch {
      return text.join(""); // A part of a character stays as its bytes.
    }
  }
  return text.join("") || pieces.join("");
}

/** Whether a label matches what is searched, whatever its case, marks of subwords and compatibility forms. */
export function matches(label: string, wanted: string): boolean {
  const plain = (text: string): string => text.normalize("NFKC").toLowerCase();
  return wanted !== "" && plain(label).includes(plain(wanted));
}
