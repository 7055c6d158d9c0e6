/** Values that tell who read them when they change: all that the panels need of a framework. */

/** Who reads: what runs again, and the sets of readers in which it is. */
interface Reader {
  run(): void;
  readonly among: Set<Set<Reader>>;
}

let reader: Reader | null = null;

export interface Signal<T> {
  value: T;
  /** Reads without being told of changes. */
  peek(): T;
}

export function signal<T>(initial: T): Signal<T> {
  let held = initial;
  const readers = new Set<Reader>();
  return {
    get value() {
      if (reader) {
        readers.add(reader);
        reader.among.add(readers);
      }
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

const due = new Set<Reader>();

/** Several changes in one turn run an effect once. */
function schedule(told: Reader): void {
  if (due.size === 0) queueMicrotask(flush);
  due.add(told);
}

function flush(): void {
  const now = [...due];
  due.clear();
  for (const { run } of now) run();
}

/** Runs at once, and again whenever a signal that it read has changed, until the returned function is called. */
export function effect(body: () => void): () => void {
  let alive = true;
  const run = (): void => {
    if (!alive) return;
    const before = reader;
    reader = self;
    try {
      body();
    } finally {
      reader = before;
    }
  };
  const self: Reader = { run, among: new Set() };
  run();
  // A value that lives on does not keep what has read it.
  return () => {
    alive = false;
    for (const readers of self.among) readers.delete(self);
    self.among.clear();
  };
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
