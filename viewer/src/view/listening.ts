/** A recording that can be listened to where a model did: its lanes, its transcript, and its sound. */

import type { App } from "../app";
import { h } from "../dom";
import type { Sequence, Span } from "../provider";
import { BLANK, type FramesScene, type Heard, type Lane } from "../scene/frames";
import { Player } from "../scene/player";
import { meanRow, reachOf, SHARE, stretch, type Row } from "../scene/stretch";
import { effect, signal } from "../signal";
import { choices, load, type Choice } from "./lanes";
import { transcript, type Transcript } from "./transcript";

/** So many letters around the chosen one have buttons and hills. */
const AROUND = 240;

export class Listening {
  readonly transcript: Transcript | null;
  readonly player: Player | null;
  /** Drawn instead of what is chosen, while the pointer or the focus is there. */
  readonly pointed = signal<Span | null>(null);
  private readonly chosen = signal<Span | null>(null);
  private lanes: readonly Lane[] = [];
  private present: Lane | null = null;
  private window: Span = [0, 0];
  private frame = 0;
  /** Those of the cursor's query. */
  private weights: Row | null = null;
  /** Why nothing can be heard. */
  readonly failure = signal("");
  private readonly stops: (() => void)[] = [];

  constructor(
    private readonly app: App,
    private readonly sequence: Sequence,
    private readonly scene: FramesScene,
    /** Whether the mean of all heads is shown where the reader chose it. */
    private readonly mean: boolean,
  ) {
    const { sound } = sequence;
    this.player = sound?.audio ? new Player(sound) : null;
    const across = this.choices().length > 0;
    this.transcript = across
      ? transcript(app, app.sequence("query"), {
          point: (unit) => (this.pointed.value = unit),
          press: (unit) => this.press(unit),
          when: (unit) => this.times(this.rowOf(unit)),
          sounds: (unit, second) => {
            const at = this.seconds(this.rowOf(unit));
            return at !== null && second >= at[0] && second < at[1];
          },
        })
      : null;
    const { player } = this;
    if (player) this.stops.push(effect(() => (player.playing.value ? this.follow() : this.silence())));
    scene.element.querySelector("canvas")!.addEventListener("keydown", (event) => {
      if (event.key !== " " || !player) return;
      event.preventDefault();
      if (player.playing.peek()) player.stop();
      else this.hearUnit(this.unit);
    });
  }

  /** The queries that are chosen: a word, as long as the cursor stays in it, otherwise one letter. */
  get unit(): Span {
    const query = this.app.cursor.peek()?.query ?? 0;
    const word = this.chosen.peek();
    return word && query >= word[0] && query < word[1] ? word : [query, query + 1];
  }

  /** Reads what is drawn for the present site, head and query. */
  async read(signal: AbortSignal): Promise<void> {
    const { app } = this;
    const { queries } = app.current;
    const from = Math.max(0, Math.min((app.cursor.peek()?.query ?? 0) - AROUND / 2, queries - AROUND));
    const window: Span = [from, Math.min(queries, from + AROUND)];
    const all = this.choices();
    const lanes = await Promise.all(all.map((choice) => load(app, choice, window, signal)));
    if (signal.aborted) return;
    this.window = window;
    this.lanes = lanes;
    this.present = lanes[all.findIndex(({ site }) => site === app.site.peek())] ?? null;
    this.transcript?.draw(window, this.unit);
    const row = this.rowOf(this.unit);
    const range = row && stretch(row);
    if (range) this.scene.show(range);
  }

  private choices(): Choice[] {
    const { trace, site, head, heads } = this.app;
    return choices(trace, site.peek(), this.mean && heads.peek() === "mean" ? null : head.peek());
  }

  /** What the scene draws besides the weights of the cursor's query. */
  heard(weights: Row | null): Pick<Heard, "weights" | "lanes" | "unit" | "stretch"> {
    this.weights = weights;
    const unit = this.pointed.peek() ?? this.unit;
    const row = this.rowOf(unit) ?? (this.pointed.peek() ? null : weights);
    return { weights: row, lanes: this.lanes, unit, stretch: row ? stretch(row) : null };
  }

  /** The stretch, and what the query sees, in words. */
  told(weights: Row): string {
    const { app } = this;
    const query = app.cursor.peek()?.query ?? 0;
    const row = this.rowOf(this.unit) ?? weights;
    const at = this.seconds(row);
    const reach = this.transcript ? null : reachOf(row);
    const hop = this.sequence.hop;
    const limited = reach && hop && (reach[0] > 0 || reach[1] < row.length) && query >= reach[0] && query < reach[1];
    return [
      at ? app.say("sound.stretch", { name: this.transcript?.nameOf(this.unit) ?? app.label("query", query), share: `${100 * SHARE}`, from: at[0].toFixed(2), to: at[1].toFixed(2) }) : "",
      limited ? app.say("sound.reach", { behind: ((query - reach[0]) * hop).toFixed(2), ahead: ((reach[1] - 1 - query) * hop).toFixed(2) }) : "",
      this.sequence.sound && !this.player ? app.say("sound.none") : "",
    ].filter(Boolean).join(" ");
  }

  /** The frame that is listened to most; null while it is unknown. */
  peak(unit: Span): number | null {
    const row = this.rowOf(unit);
    return row ? row.reduce<number>((best, weight, at) => ((weight ?? 0) > (row[best] ?? 0) ? at : best), 0) : null;
  }

  /** Buttons that play; they change while something is heard. */
  buttons(): HTMLElement[] {
    const { app, player } = this;
    if (!player) return [];
    const plays = player.playing.value !== null;
    return [
      h("button", { className: "primary", onclick: () => this.hearUnit(this.unit) }, app.say("sound.hear")),
      h("button", { onclick: () => (plays ? player.stop() : this.play(0, player.seconds)) }, app.say(plays ? "sound.stop" : "sound.whole")),
      ...(this.failure.value ? [h("span", { className: "warning", role: "alert" }, this.failure.value)] : []),
    ];
  }

  close(): void {
    cancelAnimationFrame(this.frame);
    for (const stop of this.stops) stop();
    this.player?.close();
  }

  /** Chooses a letter or a word, whose stretch is drawn. */
  choose(unit: Span): void {
    this.chosen.value = unit;
    const before = this.app.cursor.peek();
    const query = this.spoken(unit)[0] ?? unit[0];
    this.app.cursor.value = { query, key: this.peak(unit) ?? 0 };
    // The same letter again: only its sound is new.
    if (before?.query === query) this.transcript?.draw(this.window, unit);
  }

  private press(unit: Span): void {
    this.choose(unit);
    this.hearUnit(unit);
  }

  private hearUnit(unit: Span): void {
    const at = this.seconds(this.rowOf(unit) ?? this.weights);
    if (at) this.play(...at);
  }

  private play(from: number, to: number): void {
    this.failure.value = "";
    this.player?.play(from, to).catch((error: unknown) => (this.failure.value = this.app.failure(error)));
  }

  private follow(): void {
    cancelAnimationFrame(this.frame);
    const step = (): void => {
      const now = this.player!.now;
      this.scene.at(now);
      this.transcript?.at(now);
      this.frame = requestAnimationFrame(step);
    };
    step();
  }

  private silence(): void {
    cancelAnimationFrame(this.frame);
    this.scene.at(null);
    this.transcript?.at(null);
  }

  /** The weights of some queries, where they have been read. */
  private rowOf(unit: Span): Row | null {
    const { present } = this;
    const rows = this.spoken(unit).map((query) => present?.rows[query - present.from]).filter((row) => row !== undefined);
    return rows.length ? meanRow(rows) : null;
  }

  /** The letters of a unit: a space between words is part of neither. */
  private spoken([begin, end]: Span): number[] {
    const all = Array.from({ length: end - begin }, (_, at) => begin + at);
    const { present } = this;
    const letters = all.filter((query) => !BLANK.test(present?.names[query - present.from] ?? ""));
    return letters.length ? letters : all;
  }

  private seconds(row: Row | null): Span | null {
    const range = row && stretch(row);
    const each = this.sequence.hop ?? (this.sequence.sound && row ? this.sequence.sound.seconds / row.length : null);
    return range && each ? [range[0] * each, range[1] * each] : null;
  }

  private times(row: Row | null): string {
    const at = this.seconds(row);
    return at ? `${at[0].toFixed(2)}–${at[1].toFixed(2)} s` : "";
  }
}
