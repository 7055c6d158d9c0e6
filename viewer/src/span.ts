import type { Semantic, Sequence, Span } from "./provider";

/** The spans of a sequence at a semantic level; every token for itself where it has none. */
export function spansOf(sequence: Sequence | undefined, level: Semantic, length: number): readonly Span[] {
  const spans = level === "word" ? sequence?.words : sequence?.sentences;
  return spans ?? Array.from({ length }, (_, i) => [i, i + 1] as const);
}
