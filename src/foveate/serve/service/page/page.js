"use strict";
const at = (id) => document.getElementById(id);
let runs = [];

const headers = () => ({ "content-type": "application/json", ...(at("key").value ? { authorization: `Bearer ${at("key").value}` } : {}) });
const chosen = () => runs[at("run").value];

function directed(run) {
  return run.directions.length ? run.directions.map((pair) => ({ ...run, languages: pair, to: pair[1] })) : [run];
}

function question() {
  const { name, task, languages } = chosen();
  const text = at("text").value;
  if (task === "translate") {
    const [source, target] = languages ?? ["auto", name];
    return ["/translate", { q: text, source, target }];
  }
  if (task === "generate") return ["/v1/completions", { model: name, prompt: text, max_tokens: 64 }];
  return [`/${task}`, { run: name, text }];
}

async function ask(path, body) {
  const response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body) });
  warn(response.headers.get("x-foveate-unknown"));
  const value = await response.json();
  if (!response.ok) throw new Error(value.error?.message ?? value.error ?? response.statusText);
  return value;
}

function warn(unknown) {
  const words = unknown?.split(",").map((word) => (word.startsWith("+") ? `${word.slice(1)} others` : `“${decodeURIComponent(word)}”`));
  at("unknown").textContent = words ? `The model does not know ${words.join(", ")}.` : "";
}

function written(value) {
  if (value.translatedText !== undefined) return value.translatedText;
  if (value.choices) return value.choices[0].text;
  if (value.tags) return value.words.map((word, index) => `${word}/${value.tags[index]}`).join(" ");
  if (value.label !== undefined) return Object.entries(value.probabilities).map(([label, share]) => `${label} ${(100 * share).toFixed(1)} %`).join("\n");
  return value.text;
}

function show(text, failed = false) {
  at("answer").textContent = text;
  at("answer").classList.toggle("failed", failed);
}

function draw({ rows, columns, weights }) {
  const table = document.createElement("table");
  const head = table.createTHead().insertRow();
  head.insertCell();
  for (const label of columns) head.append(cell("th", label, "col"));
  const body = table.createTBody();
  rows.forEach((label, row) => {
    const line = body.insertRow();
    line.append(cell("th", label, "row"));
    for (const weight of weights[row]) {
      const one = cell("td", weight === null || weight < 0.005 ? "" : weight.toFixed(2));
      one.style.backgroundColor = `rgb(var(--rgb) / ${0.42 * (weight ?? 0)})`;
      line.append(one);
    }
  });
  at("map").replaceChildren(table);
  at("map").hidden = false;
}

function cell(kind, text, scope) {
  const element = document.createElement(kind);
  const inner = document.createElement("bdi");
  inner.textContent = text;
  element.append(inner);
  if (scope) element.scope = scope;
  return element;
}

function curl() {
  const [path, body] = question();
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  const key = at("keyfield").hidden ? "" : " -H 'Authorization: Bearer KEY'";
  at("curl").textContent = `curl${key} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))} ${location.origin}${path}`;
}

async function busy(work) {
  at("state").textContent = "…";
  const started = performance.now();
  try {
    await work();
    at("state").textContent = `${((performance.now() - started) / 1000).toFixed(2)} s`;
  } catch (error) {
    show(error.message, true);
    at("state").textContent = "";
  }
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  for (const part of ["map", "page"]) at(part).hidden = true;
  void busy(async () => show(written(await ask(...question()))));
});
at("explain").addEventListener("click", () => {
  if (!at("form").reportValidity()) return;
  void busy(async () => {
    const { name, to } = chosen();
    const value = await ask("/explain", { source: at("text").value, run: name, ...(to ? { to } : {}), page: true });
    show(written(value) ?? "");
    draw(value);
    at("page").href = value.page;
    at("page").hidden = false;
  });
});
at("form").addEventListener("input", curl);
at("copy").addEventListener("click", () => {
  void (async () => {
    // Only pages of this machine, or by TLS, may write to the clipboard.
    const copied = await navigator.clipboard?.writeText(at("curl").textContent).then(() => true, () => false);
    if (!copied) getSelection().selectAllChildren(at("curl"));
    at("state").textContent = copied ? "Copied" : "Selected: copy it by the keys of your system";
  })();
});

void (async () => {
  const about = await (await fetch("/about")).json();
  runs = about.runs.flatMap(directed);
  at("keyfield").hidden = !about.keyRequired;
  at("run").replaceChildren(...runs.map(({ name, task, to, languages }, place) => new Option(`${name} (${to ? languages.join(" → ") : task})`, place)));
  if (runs.length) curl();
})();
