/** A head whose numbers a reader changes: everything after them is computed again, in 64 bits. */

import type { Part, Site } from "../provider";
import { Head } from "./head";
import type { Tensor } from "./payload";
import { statisticOf } from "./statistic";

/** Up to so many queries and keys the numbers of a head can be changed. */
export const EDITABLE = 64;
export const editable = ({ queries, keys }: Site): boolean => queries <= EDITABLE && keys <= EDITABLE;

export class Draft {
  readonly recorded: Head;
  private readonly changes = new Map<Part, Float64Array>();
  private computed: Head | null = null;

  constructor(
    private readonly site: Site,
    private readonly index: number,
    private readonly tensors: Map<string, Tensor>,
  ) {
    this.recorded = new Head(site, index, tensors);
  }

  get changed(): boolean {
    return this.changes.size > 0;
  }

  /** The recorded head, or the one with the reader's numbers. */
  get head(): Head {
    if (!this.changed) return this.recorded;
    return (this.computed ??= this.compute());
  }

  at(part: Part, row: number, column: number): number {
    return this.numbers(part)[row * this.width(part) + column]!;
  }

  set(part: Part, row: number, column: number, value: number): void {
    const numbers = this.changes.get(part) ?? Float64Array.from(this.numbers(part));
    numbers[row * this.width(part) + column] = value;
    this.changes.set(part, numbers);
    this.computed = null;
  }

  reset(): void {
    this.changes.clear();
    this.computed = null;
  }

  private numbers(part: Part): Float32Array | Float64Array {
    return this.changes.get(part) ?? this.recorded[part === "scores" ? "dense" : part]!;
  }

  private width(part: Part): number {
    const { feature, valueFeature, keys } = this.recorded;
    return part === "value" ? valueFeature : part === "scores" ? keys : feature;
  }

  private compute(): Head {
    const { queries, keys } = this.site;
    const tensors = new Map(this.tensors);
    for (const [part, data] of this.changes) {
      const width = this.width(part);
      tensors.set(part, { dtype: "F64", shape: part === "vector" ? [1, width] : [1, data.length / width, width], data });
    }
    tensors.set("statistic", { dtype: "F64", shape: [1, queries], data: new Float64Array(queries) });
    const head = new Head(this.site, this.index, tensors);
    const scores = new Float64Array(keys);
    for (let i = 0; i < queries; i++) {
      head.scores(i, 0, keys, scores);
      const visible = Array.from({ length: keys }, (_, j) => j).filter((j) => head.visible(i, j));
      head.statistic[i] = statisticOf(this.site.normaliser, visible.map((j) => scores[j]!), visible);
    }
    return head;
  }
}
