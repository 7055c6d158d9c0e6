/** Values that tell who read them when they change: all that the panels need of a framework. */

let reader: (() => void) | null = null;

export interface Signal<T> {
  value: T;
  /** Reads without being told of changes. */
  peek(): T;
}

export function signal<T>(initial: T): Signal<T> {
  let held = initial;
  const readers = new Set<() => void>();
  return {
    get value() {
      if (reader) readers.add(reader);
      return held;
    },
    set value(next: T) {
      if (Object.is(next, held)) return;
      held = next;
      for (const told of [...readers]) schedule(told);
    },
    peek: () => held,
  };
}

const due = new Set<() => void>();

/** Several changes in one turn run an effect once. */
function schedule(run: () => void): void {
  if (due.size === 0) queueMicrotask(flush);
  due.add(run);
}

function flush(): void {
  const now = [...due];
  due.clear();
  for (const run of now) run();
}

/** Runs at once, and again whenever a signal that it read has changed, until the returned function is called. */
export function effect(body: () => void): () => void {
  let alive = true;
  const run = (): void => {
    if (!alive) return;
    const before = reader;
    reader = run;
    try {
      body();
    } finally {
      reader = before;
    }
  };
  run();
  return () => (alive = false);
}

/** Reads signals without being told. */
export function untracked<T>(body: () => T): T {
  const before = reader;
  reader = null;
  try {
    return body();
  } finally {
    reader = before;
  }
}
