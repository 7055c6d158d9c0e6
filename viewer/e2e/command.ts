/** The command `foveate` of this source, with the Python of this repository (or $PYTHON). */

import { execFileSync, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../../", import.meta.url));
const own = `${root}.venv/bin/python`;
export const python = process.env["PYTHON"] ?? (existsSync(own) ? own : "python3");
// Threads that share a busy machine wait for each other.
const env = { ...process.env, PYTHONPATH: `${root}src`, OMP_NUM_THREADS: "1" };

/** Runs the command until its end. */
export function foveate(...what: string[]): void {
  execFileSync(python, ["-m", "foveate", ...what], { env, stdio: "ignore" });
}

/** What a program in Python prints. */
export function printed(script: string, ...what: string[]): string {
  return execFileSync(python, ["-c", script, ...what], { env }).toString();
}

/** A command that serves, until `end`. */
export interface Serving {
  url: string;
  end(): Promise<void>;
}

/** Starts a command that serves, and waits for its address, the first word of a line. */
export async function serving(...what: string[]): Promise<Serving> {
  const server = spawn(python, ["-m", "foveate", ...what], { env, stdio: ["ignore", "ignore", "pipe"] });
  const ended = new Promise<void>((resolve) => server.once("exit", () => resolve()));
  const said: string[] = [];
  for await (const line of createInterface({ input: server.stderr })) {
    const url = /^http:\/\/\S+/.exec(line)?.[0];
    if (url === undefined) {
      said.push(line);
      continue;
    }
    server.stderr.resume();
    return {
      url,
      async end() {
        server.kill("SIGINT");
        await ended;
      },
    };
  }
  throw new Error(`foveate ${what.join(" ")} has no address: ${said.join("\n")}`);
}
