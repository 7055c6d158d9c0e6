"use strict";
const at = (id) => document.getElementById(id);
/** Milliseconds until a service without models is asked again. */
const AGAIN = 2000;
let runs = [];
/** Runs that read files, which this page does not send. */
let others = [];

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

/** Counts questions: only what the last one is answered is shown. */
let turn = 0;

/** What the service answers: JSON, or of a voice a sound. */
async function ask(path, body) {
  const asked = turn;
  const response = await fetch(path, { method: "POST", headers: headers(), body: JSON.stringify(body) }).catch(() => {
    throw new Error(said("silent"));
  });
  if (asked === turn) warn(response.headers.get("x-foveate-unknown"));
  if (response.headers.get("content-type")?.startsWith("audio/")) return { sound: await response.blob() };
  const value = await response.json();
  if (!response.ok) throw new Error(value.error?.message ?? value.error ?? response.statusText);
  return value;
}

function warn(unknown) {
  const words = unknown?.split(",").map((word) => (word.startsWith("+") ? said("others", { count: word.slice(1) }) : isolated(`“${decodeURIComponent(word)}”`)));
  at("unknown").textContent = words ? said("unknown", { words: words.join(language === "fa" ? "، " : ", ") }) : "";
}

function written(value) {
  if (value.translatedText !== undefined) return value.translatedText;
  if (value.choices) return value.choices[0].text;
  if (value.tags) return value.words.map((word, index) => `${word}/${value.tags[index]}`).join(" ");
  if (value.values) return Object.entries(value.values).map(([name, number]) => `${name} ${number.toPrecision(4)}`).join("\n");
  if (value.label !== undefined) return Object.entries(value.probabilities).map(([label, share]) => `${label} ${(100 * share).toFixed(1)} %`).join("\n");
  return value.text;
}

function show(text, failed = false) {
  hush();
  at("answer").textContent = text;
  at("answer").classList.toggle("failed", failed);
}

function play(sound) {
  show("");
  at("sound").src = URL.createObjectURL(sound);
  at("sound").hidden = false;
}

function hush() {
  if (at("sound").hidden) return;
  at("sound").pause();
  URL.revokeObjectURL(at("sound").src);
  at("sound").hidden = true;
}

function draw({ rows, columns, weights }, text) {
  const table = document.createElement("table");
  const [letter] = text.match(/\p{L}/u) ?? [""];
  table.dir = RIGHT_TO_LEFT.test(letter) ? "rtl" : "ltr"; // as the text is read, whatever the language of the page
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
  const key = at("keyfield").hidden ? "" : " -H 'Authorization: Bearer KEY'";
  const sent = ({ name, task }) => `curl${key} -F run=${name} -F file=@FILE ${location.origin}/${task}`;
  at("others").textContent = others.map(sent).join("\n");
  if (!runs.length) return;
  const [path, body] = question();
  const into = chosen().task === "speak" ? " -o speech.wav" : "";
  const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
  at("curl").textContent = `curl${key} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}${into} ${location.origin}${path}`;
}

/** Does work, and then what it returns, unless something else was asked meanwhile. */
async function busy(work) {
  const asked = ++turn;
  for (const part of ["map", "page"]) at(part).hidden = true;
  at("state").textContent = "…";
  const started = performance.now();
  try {
    if (!runs.length) throw new Error(said("loading"));
    const tell = await work();
    if (asked !== turn) return;
    tell();
    at("state").textContent = said("seconds", { count: ((performance.now() - started) / 1000).toFixed(2) });
  } catch (error) {
    if (asked !== turn) return;
    show(error.message, true);
    at("state").textContent = "";
  }
}

at("form").addEventListener("submit", (event) => {
  event.preventDefault();
  void busy(async () => {
    const value = await ask(...question());
    return () => (value.sound ? play(value.sound) : show(written(value)));
  });
});
at("explain").addEventListener("click", () => {
  if (!at("form").reportValidity()) return;
  void busy(async () => {
    const [{ name, to }, text] = [chosen(), at("text").value];
    const value = await ask("/explain", { source: text, run: name, ...(to ? { to } : {}), page: true });
    return () => {
      show(written(value) ?? "");
      draw(value, text);
      at("page").href = value.page;
      at("page").hidden = false;
    };
  });
});
at("form").addEventListener("input", curl);
at("copy").addEventListener("click", () => {
  void (async () => {
    // Only pages of this machine, or by TLS, may write to the clipboard.
    const copied = await navigator.clipboard?.writeText(at("curl").textContent).then(() => true, () => false);
    if (!copied) getSelection().selectAllChildren(at("curl"));
    at("state").textContent = said(copied ? "copied" : "selected");
  })();
});

/** Say everything in the reader's language. */
function speak() {
  document.documentElement.lang = language;
  document.documentElement.dir = language === "fa" ? "rtl" : "ltr";
  for (const part of document.querySelectorAll("[data-word]")) part.textContent = said(part.dataset.word);
  at("language").ariaLabel = said("language");
  at("map").ariaLabel = said("attention");
  const place = at("run").selectedIndex;
  at("run").replaceChildren(...runs.map(({ name, task, to, languages }, number) => new Option(`${isolated(name)} (${to ? isolated(languages.join(" → ")) : said(task)})`, number)));
  at("run").selectedIndex = Math.max(place, 0);
  hint();
}

function hint() {
  at("text").placeholder = chosen()?.task === "fill" ? said("gap") : "";
}

async function load() {
  const about = await fetch("/about").then((response) => response.json(), () => null);
  runs = about?.runs.filter(({ reads }) => reads === "texts").flatMap(directed) ?? [];
  others = about?.runs.filter(({ reads }) => reads !== "texts") ?? [];
  for (const part of document.querySelectorAll(".texts")) part.hidden = !runs.length && others.length > 0;
  at("files").hidden = !others.length;
  at("keyfield").hidden = !about?.keyRequired;
  speak();
  curl();
  const waits = !runs.length && !others.length;
  at("state").textContent = waits ? said(about ? "loading" : "silent") : "";
  if (waits) setTimeout(() => void load(), AGAIN);
}

at("language").replaceChildren(...Object.entries(WORDS).map(([code, { name }]) => new Option(name, code)));
at("language").value = language;
at("language").addEventListener("change", () => {
  language = at("language").value;
  speak();
});
at("run").addEventListener("change", hint);
void load();
