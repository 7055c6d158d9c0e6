/**
 * The notebook's side of a live viewer (anywidget): a frame that may run scripts and nothing else, and a port between it
 * and Python. What Python sends as bytes becomes numbers here.
 */

import type { Answer, Looking, Place, Question } from "./protocol";

interface Model {
  get(name: string): unknown;
  set(name: string, value: unknown): void;
  save_changes(): void;
  send(content: unknown): void;
  on(event: "msg:custom", hear: Hear): void;
  on(event: `change:${keyof Place}`, hear: () => void): void;
  off(event: "msg:custom", hear: Hear): void;
  off(event: `change:${keyof Place}`, hear: () => void): void;
}
const PLACE = ["site", "head", "cursor"] as const;
type Hear = (content: Told, buffers: (DataView | ArrayBuffer)[]) => void;

/** `id` begins with the name of the view that asked. */
interface Told {
  id: string;
  value?: unknown;
  array?: "uint8" | "uint16" | "uint32" | "float32";
  thumbnail?: { estimate: boolean };
  guess?: boolean;
  error?: string;
  aborted?: boolean;
}

const ARRAYS = { uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array, float32: Float32Array };

function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  // Several views, in several windows, may look at one model.
  const view = `${Math.random().toString(36).slice(2)}/`;
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.title = "What the model attended to";
  frame.style.cssText = `display:block;width:100%;height:${Number(model.get("height"))}px;border:0`;
  frame.srcdoc = String(model.get("page"));
  let port: MessagePort | null = null;
  const place = (): Place => ({ site: Number(model.get("site") ?? 0), head: Number(model.get("head") ?? 0), cursor: (model.get("cursor") as Place["cursor"]) ?? null });
  let told = false;
  const look = (): void => void (told || port?.postMessage({ look: place() }));
  /** The reader went somewhere: Python learns of it, and so do the other views, but not this page once more. */
  const looking = (at: Place): void => {
    told = true;
    for (const name of PLACE) model.set(name, at[name]);
    told = false;
    model.save_changes();
  };
  frame.addEventListener("load", () => {
    // Whenever the notebook moves the frame, the page in it begins anew.
    port?.close();
    const channel = new MessageChannel();
    port = channel.port1;
    port.onmessage = ({ data }: MessageEvent<Question | Looking>) => {
      if ("looking" in data) looking(data.looking);
      else if ("stop" in data) model.send({ stop: view + data.stop });
      else if ("id" in data) model.send({ ...data, id: view + data.id });
    };
    frame.contentWindow!.postMessage({ place: place() }, "*", [channel.port2]);
  });
  const hear: Hear = (content, buffers) => {
    if (!String(content.id).startsWith(view)) return;
    const answer = answered(content, buffers);
    port?.postMessage(answer);
  };
  model.on("msg:custom", hear);
  for (const name of PLACE) model.on(`change:${name}`, look);
  el.append(frame);
  return () => {
    model.off("msg:custom", hear);
    for (const name of PLACE) model.off(`change:${name}`, look);
    port?.close();
    frame.remove();
  };
}

function answered(content: Told, buffers: (DataView | ArrayBuffer)[]): Answer {
  const id = Number(content.id.split("/")[1]);
  if (content.error !== undefined) return { id, error: content.error, aborted: content.aborted ?? false };
  if (!content.array) return { id, value: content.value };
  const numbers = new ARRAYS[content.array](copied(buffers[0]!));
  if (content.guess) return { id, estimate: numbers as Uint16Array };
  return { id, value: content.thumbnail ? { codes: numbers, ...content.thumbnail } : numbers };
}

/** On their own, since numbers of four bytes cannot begin anywhere in a message. */
const copied = (bytes: DataView | ArrayBuffer): ArrayBuffer =>
  bytes instanceof ArrayBuffer ? bytes : (bytes.buffer as ArrayBuffer).slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength);

export default { render };
