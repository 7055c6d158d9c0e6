/** An answer that can be told word by word, as it was written. */

export interface Telling {
  /** Words of the answer. */
  count: number;
  /** Shows so many words and the weights of the last one; null shows everything. Fulfilled once it is drawn. */
  show(words: number | null): Promise<void>;
}

/** Effects of changed signals have run by then. */
export const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));
