import { THUMBNAIL } from "../provider";

/** The least level at which the whole map is a thumbnail. */
export function overviewLevel(queries: number, keys: number): number {
  return Math.max(0, Math.ceil(Math.log2(Math.max(queries, keys, 1) / THUMBNAIL)));
}
