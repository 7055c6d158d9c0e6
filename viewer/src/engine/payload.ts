/** A trace as a page carries it: base64(deflate-raw(u32 length, JSON, tensors)). */

import { VERSIONS, type Trace } from "../provider";

export interface Tensor {
  dtype: string;
  shape: number[];
  /** Half precision stays as its bits until a head is looked at. */
  data: Uint8Array | Uint16Array | Int32Array | Float32Array | Float64Array;
}

export interface Payload {
  trace: Trace;
  /** Per site, by name. */
  tensors: Map<string, Tensor>[];
}

interface Entry {
  site: number;
  name: string;
  dtype: string;
  shape: number[];
  offset: number;
  length: number;
}

export async function unpack(base64: string): Promise<Payload> {
  const packed = fromBase64(base64);
  const stream = new Blob([packed as BlobPart]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return parse(new Uint8Array(await new Response(stream).arrayBuffer()));
}

function fromBase64(text: string): Uint8Array {
  const binary = atob(text.trim());
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

export function parse(bytes: Uint8Array): Payload {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length))) as { trace: Trace; tensors: Entry[] };
  const { trace } = header;
  if (trace.format !== "foveate-trace" || !VERSIONS.includes(trace.version)) {
    throw new Error(`This page holds a ${trace.format} of version ${trace.version}; this viewer reads foveate-trace ${VERSIONS.join(" and ")}.`);
  }
  const tensors = trace.sites.map(() => new Map<string, Tensor>());
  for (const entry of header.tensors) {
    const start = 4 + length + entry.offset;
    if (start + entry.length > bytes.length) throw new Error(`The trace is cut short: ${entry.name} of site ${entry.site} is missing.`);
    tensors[entry.site]?.set(entry.name, typed(entry, bytes.slice(start, start + entry.length).buffer));
  }
  return { trace, tensors };
}

function typed({ dtype, shape }: Entry, buffer: ArrayBuffer): Tensor {
  switch (dtype.toUpperCase()) {
    case "F16":
      return { dtype: "F16", shape, data: new Uint16Array(buffer) };
    case "F32":
      return { dtype: "F32", shape, data: new Float32Array(buffer) };
    case "F64":
      return { dtype: "F32", shape, data: Float32Array.from(new Float64Array(buffer)) };
    case "I32":
      return { dtype: "I32", shape, data: new Int32Array(buffer) };
    case "I64":
      return { dtype: "I32", shape, data: Int32Array.from(new BigInt64Array(buffer), Number) };
    case "U8":
    case "BOOL":
      return { dtype: "U8", shape, data: new Uint8Array(buffer) };
    default:
      throw new Error(`The trace holds numbers of type ${dtype}, which this viewer does not read.`);
  }
}

/** The bytes that `parse` reads. */
export function assemble(trace: Trace, tensors: Record<string, Tensor>[]): Uint8Array {
  const entries: Entry[] = [];
  const parts: Uint8Array[] = [];
  let offset = 0;
  tensors.forEach((named, site) => {
    for (const [name, { dtype, shape, data }] of Object.entries(named)) {
      const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      entries.push({ site, name, dtype, shape, offset, length: bytes.length });
      parts.push(bytes);
      offset += bytes.length;
    }
  });
  const json = new TextEncoder().encode(JSON.stringify({ trace, tensors: entries }));
  const whole = new Uint8Array(4 + json.length + offset);
  new DataView(whole.buffer).setUint32(0, json.length, true);
  whole.set(json, 4);
  let at = 4 + json.length;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
