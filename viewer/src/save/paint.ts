/** A colour as older programs read it: six digits, and what shines through apart. */
export function paint(colour: string): { fill: string; "fill-opacity"?: number } {
  const srgb = /^color\(srgb ([\d.e+-]+) ([\d.e+-]+) ([\d.e+-]+)(?: \/ ([\d.]+))?\)$/.exec(colour);
  const plainly = /^rgba?\(([\d.]+),? ([\d.]+),? ([\d.]+)(?:,? (?:\/ )?([\d.]+))?\)$/.exec(colour);
  const found = srgb ?? plainly;
  if (!found) return { fill: colour };
  const fill = `#${[1, 2, 3].map((at) => Math.round(Number(found[at]) * (srgb ? 255 : 1)).toString(16).padStart(2, "0")).join("")}`;
  return found[4] === undefined || Number(found[4]) === 1 ? { fill } : { fill, "fill-opacity": Number(found[4]) };
}
