/** Who computes when: one job at a time of each urgency, and the more urgent ones first; any can be called off. */

export const URGENCY = { now: 0, tile: 1, overview: 2, statistics: 3, pyramid: 4 } as const;
export type Urgency = (typeof URGENCY)[keyof typeof URGENCY];

/** How long a job computes before it looks up, in milliseconds. */
const SLICE = 12;

export class Turns {
  private readonly waiting = [0, 0, 0, 0, 0];
  private readonly last: Promise<unknown>[] = [0, 1, 2, 3, 4].map(() => Promise.resolve());
  private sleepers: (() => void)[] = [];

  constructor(private readonly clock: () => number = () => performance.now()) {}

  /** Runs the job to its end, in slices. Rejects with an AbortError once `signal` is aborted. */
  run<T>(urgency: Urgency, job: () => Generator<void, T>, signal?: AbortSignal): Promise<T> {
    this.waiting[urgency]! += 1;
    const turn = this.last[urgency]!.then(() => this.drive(urgency, job, signal)).finally(() => {
      this.waiting[urgency]! -= 1;
      this.wake();
    });
    this.last[urgency] = turn.catch(() => undefined);
    return turn;
  }

  private async drive<T>(urgency: Urgency, job: () => Generator<void, T>, signal?: AbortSignal): Promise<T> {
    let steps: Generator<void, T> | null = null;
    for (;;) {
      await breath();
      while (this.waiting.slice(0, urgency).some((count) => count > 0)) await this.sleep();
      signal?.throwIfAborted();
      steps ??= job();
      const until = this.clock() + SLICE;
      do {
        const { done, value } = steps.next();
        if (done) return value;
      } while (this.clock() < until);
    }
  }

  private sleep(): Promise<void> {
    return new Promise((resolve) => this.sleepers.push(resolve));
  }

  private wake(): void {
    const sleepers = this.sleepers;
    this.sleepers = [];
    for (const resolve of sleepers) resolve();
  }
}

/** Lets messages in: a macrotask without the four milliseconds that nested timers cost. */
function breath(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(0);
  });
}
