/** A page in a notebook looks where Python looks, and tells where it looks itself. */

import type { App } from "./app";
import type { Look, Looking, Place } from "./protocol";
import { effect } from "./signal";

export interface Line {
  addEventListener(kind: "message", hear: (event: MessageEvent) => void): void;
  postMessage(message: Looking): void;
}

export function follow(app: App, line: Line, first: Place | null): void {
  let known = "";
  const look = (place: Place): void => {
    known = JSON.stringify(place);
    app.look(place);
  };
  if (first) look(first);
  line.addEventListener("message", ({ data }: MessageEvent<Partial<Look>>) => data.look && look(data.look));
  effect(() => {
    const cursor = app.cursor.value;
    const looking: Place = { site: app.site.value, head: app.head.value, cursor: cursor && [cursor.query, cursor.key] };
    const now = JSON.stringify(looking);
    if (now !== known) line.postMessage({ looking });
    known = now;
  });
}
