/** The painted tiles of a map: what is there, what is asked for, and what nobody wants any more. */

import { calledOff } from "../app";
import type { Place } from "../camera";
import { LeastRecent } from "../recent";
import type { Layer, Tile } from "./layer";

const KEPT = 192;

export class Tiles {
  layer: Layer | null = null;
  private readonly tiles = new LeastRecent<string, Tile>(KEPT);
  private readonly pending = new Map<string, AbortController>();

  constructor(
    private readonly changed: () => void,
    private readonly waiting: (is: boolean, estimated: boolean) => void,
    private readonly failed: (error: unknown) => void,
  ) {}

  use(layer: Layer): void {
    if (layer.name !== this.layer?.name) this.callOff();
    this.layer = layer;
  }

  callOff(): void {
    for (const control of this.pending.values()) control.abort();
    this.pending.clear();
  }

  private name({ level, row, column }: Place): string {
    return `${this.layer!.name}/${level}/${row}/${column}`;
  }

  get(place: Place): Tile | undefined {
    return this.layer ? this.tiles.get(this.name(place)) : undefined;
  }

  /** Asks for what is missing or only estimated, and calls off what is out of sight. */
  want(places: Place[]): void {
    const wanted = new Set(places.map((place) => this.name(place)));
    for (const [name, control] of this.pending) {
      if (wanted.has(name)) continue;
      control.abort();
      this.pending.delete(name);
    }
    for (const place of places) {
      const name = this.name(place);
      if (this.tiles.get(name)?.estimate !== false && !this.pending.has(name)) this.ask(place, name);
    }
    this.tell();
  }

  private ask({ level, row, column }: Place, name: string): void {
    const control = new AbortController();
    this.pending.set(name, control);
    const keep = (tile: Tile): void => {
      if (control.signal.aborted) return;
      this.tiles.set(name, tile);
      this.changed();
    };
    this.layer!.tile(level, row, column, control.signal, keep)
      .then(keep)
      .catch((error: unknown) => {
        if (!calledOff(error)) this.failed(error);
      })
      .finally(() => {
        if (this.pending.get(name) === control) this.pending.delete(name);
        this.tell();
      });
  }

  private tell(): void {
    const names = [...this.pending.keys()];
    this.waiting(names.length > 0, names.some((name) => this.tiles.get(name)?.estimate));
  }
}
