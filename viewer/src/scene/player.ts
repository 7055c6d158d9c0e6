/** Plays a stretch of the sound that a trace holds. Nothing is fetched: its samples are in the page. */

import type { Sequence } from "../provider";
import { signal } from "../signal";

/** A word cut out of speech begins and ends with a click, unless it fades for so many seconds. */
const FADE = 0.008;
/** So short a stretch is widened around its middle, or nothing would be heard of it. */
export const SHORTEST = 0.12;

export interface Playing {
  start: number;
  end: number;
}

/** What is played of a stretch: a little more where it is too short to be heard, within the sound. */
export function audible(start: number, end: number, seconds: number): Playing {
  const more = Math.max(0, SHORTEST - (end - start)) / 2;
  const from = Math.max(0, Math.min(start - more, seconds - SHORTEST));
  return { start: from, end: Math.min(seconds, Math.max(end + more, from + Math.min(SHORTEST, seconds))) };
}

export class Player {
  /** What is heard now; null in silence. */
  readonly playing = signal<Playing | null>(null);
  private context: AudioContext | null = null;
  private samples: Promise<AudioBuffer> | null = null;
  private source: AudioBufferSourceNode | null = null;
  private began = 0;

  constructor(private readonly sound: NonNullable<Sequence["sound"]>) {}

  get seconds(): number {
    return this.sound.seconds;
  }

  async play(start: number, end: number): Promise<void> {
    this.stop();
    const range = audible(start, end, this.sound.seconds);
    // What was asked for last is heard, also while the samples are still being decoded.
    this.playing.value = range;
    try {
      const context = (this.context ??= new AudioContext());
      void context.resume();
      const buffer = await (this.samples ??= context.decodeAudioData(bytesOf(this.sound.audio!.data)));
      if (this.playing.peek() !== range) return;
      const [source, gain] = [context.createBufferSource(), context.createGain()];
      source.buffer = buffer;
      source.connect(gain).connect(context.destination);
      const [now, length] = [context.currentTime, range.end - range.start];
      gain.gain.setValueAtTime(0, now);
      gain.gain.linearRampToValueAtTime(1, now + FADE);
      gain.gain.setValueAtTime(1, now + Math.max(FADE, length - FADE));
      gain.gain.linearRampToValueAtTime(0, now + length);
      source.onended = () => this.source === source && this.stop();
      source.start(now, range.start, length);
      [this.source, this.began] = [source, now];
    } catch (error) {
      if (this.playing.peek() === range) this.playing.value = null;
      this.samples = null;
      throw error;
    }
  }

  stop(): void {
    const { source } = this;
    this.source = null;
    this.playing.value = null;
    source?.stop();
  }

  /** The second that is heard now; null in silence. */
  get now(): number | null {
    const range = this.playing.peek();
    if (!range || !this.source || !this.context) return range?.start ?? null;
    const late = this.context.outputLatency || 0;
    return Math.min(range.end, range.start + Math.max(0, this.context.currentTime - this.began - late));
  }

  close(): void {
    this.stop();
    void this.context?.close();
  }
}

function bytesOf(base64: string): ArrayBuffer {
  const text = atob(base64);
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0)).buffer;
}
