/** Elements from words. Text is only ever text: no string becomes markup here. */

type Child = Node | string | number | null | false | undefined;
type Properties = Record<string, unknown>;

export function h<K extends keyof HTMLElementTagNameMap>(tag: K, properties: Properties = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value as EventListener);
    else if (name in element && !name.includes("-") && name !== "list") (element as unknown as Properties)[name] = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, ...children);
  return element;
}

export function add(parent: Node, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function replace(parent: Element, ...children: Child[]): void {
  parent.replaceChildren();
  add(parent, ...children);
}

const FOCUSABLE = "button,select,input,textarea";

/** Replaces controls by their like; the one in use stays in use, or the last one if there are fewer. */
export function refill(parent: Element, ...children: Child[]): void {
  const used = [...parent.querySelectorAll(FOCUSABLE)].indexOf(document.activeElement!);
  replace(parent, ...children);
  const like = parent.querySelectorAll<HTMLElement>(FOCUSABLE);
  if (used >= 0) like[Math.min(used, like.length - 1)]?.focus();
}

/** A choice among few: a labelled select. */
export function choice<T extends string>(label: string, options: readonly (readonly [T, string])[], value: T, chosen: (value: T) => void): HTMLLabelElement {
  const select = h("select", { "aria-label": label, onchange: () => chosen(select.value as T) }, ...options.map(([name, text]) => h("option", { value: name, selected: name === value }, text)));
  return h("label", { className: "field" }, h("span", { "aria-hidden": "true" }, label), select);
}

const SVG = "http://www.w3.org/2000/svg";

export function svgOf<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Record<string, string | number>, text = ""): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text) element.textContent = text;
  return element;
}

const MATH = "http://www.w3.org/1998/Math/MathML";
const TAGS = new Set("math mrow mi mn mo ms mtext mspace mfrac msqrt mroot msub msup msubsup munder mover munderover mtable mtr mtd mstyle mpadded mphantom menclose".split(" "));
const ATTRIBUTES = new Set(["display", "mathvariant", "stretchy", "fence", "separator", "lspace", "rspace", "largeop", "movablelimits", "columnalign", "accent"]);

/** MathML text as elements: only elements and attributes of formulas come through. */
export function formula(text: string): Node {
  const parsed = new DOMParser().parseFromString(text.includes("xmlns") ? text : text.replace("<math", `<math xmlns="${MATH}"`), "application/xml");
  const root = parsed.documentElement;
  return root.localName === "math" ? cleaned(root) : document.createTextNode(parsed.documentElement.textContent ?? "");
}

function cleaned(from: Element): Node {
  if (!TAGS.has(from.localName)) return document.createTextNode(from.textContent ?? "");
  const element = document.createElementNS(MATH, from.localName);
  for (const { name, value } of from.attributes) if (ATTRIBUTES.has(name)) element.setAttribute(name, value);
  for (const child of from.childNodes) {
    if (child instanceof Element) element.appendChild(cleaned(child));
    else element.appendChild(document.createTextNode(child.textContent ?? ""));
  }
  return element;
}
