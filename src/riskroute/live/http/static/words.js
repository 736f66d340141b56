// Elements with plain text only, so that no name can become markup; and formats of numbers.

export const $ = (id) => document.getElementById(id);

export function make(tag, attributes = {}, ...inside) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== "" && value != null) made.setAttribute(name, value);
  made.append(...inside.filter((one) => one != null).map((one) => (one instanceof Node ? one : String(one))));
  return made;
}

export function draw(tag, attributes = {}, ...inside) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...inside);
  return made;
}

const seen = new Map();

// Replace the content of a box only if it changed: otherwise selections and screen readers would lose their place.
export function show(box, made) {
  const nodes = [made].flat().filter((one) => one != null);
  const text = nodes.map((one) => one.outerHTML ?? one).join("");
  if (seen.get(box) === text) return;
  seen.set(box, text);
  box.replaceChildren(...nodes);
}

const format = (digits) => new Intl.NumberFormat("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits });
const formats = [0, 1, 2, 3, 4].map(format);
const short = new Intl.NumberFormat("en-GB", { notation: "compact", maximumFractionDigits: 1 });
const minus = (text) => text.replace(/^-/, "−");

export const number = (value, digits = 0) => (value == null ? "–" : minus(formats[digits].format(value)));
export const brief = (value) => (Math.abs(value) < 1e5 ? number(value) : minus(short.format(value)));
export const amount = (value, currency, say = (one) => number(one, 2)) => (value == null ? "–" : `${say(value)}${currency ? `\u00a0${currency}` : ""}`);
const exact = new Intl.NumberFormat("en-GB", { maximumFractionDigits: 12 });
export const quantity = (value) => (value == null ? "–" : minus(exact.format(value)));
export const percent = (value) => (value == null ? "–" : number(100 * value, value > 0 && value < 0.1 ? 1 : 0) + " %");
export const plural = (count, one, many = one + "s") => `${number(count)} ${count === 1 ? one : many}`;

export function seconds(value) {
  if (value < 10) return `${number(Math.max(value, 0), 1)} s`;
  if (value < 120) return `${number(value)} s`;
  return value < 7200 ? `${number(value / 60)} min` : `${number(value / 3600, 1)} h`;
}

export function duration(value) {
  if (value == null) return "–";
  if (value < 1e-3) return `${number(1e6 * value)}\u00a0µs`;
  return value < 1 ? `${number(1e3 * value, value < 0.01 ? 1 : 0)}\u00a0ms` : seconds(value);
}

export function size(bytes) {
  if (bytes < 1e3) return `${number(bytes)} B`;
  return bytes < 1e6 ? `${number(bytes / 1e3)} kB` : `${number(bytes / 1e6, 1)} MB`;
}

export const clock = (nanoseconds) => new Date(nanoseconds / 1e6).toLocaleTimeString("en-GB");

export const within = ({ low, high }) => (low == null ? "" : `95 %: ${number(low, 2)} to ${number(high, 2)}`);

// A table that becomes a list of cards on a narrow screen.
export function table(caption, columns, rows) {
  const head = columns.map(({ name, left }) => make("th", { scope: "col", class: left ? "left" : "" }, name));
  const body = rows.map((cells) =>
    make("tr", {}, ...cells.map((cell, k) => {
      const { name, left, picture, wrap } = columns[k];
      const style = [left && "left", picture && "picture", wrap && "wrap"].filter(Boolean).join(" ");
      return k === 0
        ? make("th", { scope: "row", class: style }, cell)
        : make("td", { class: style, "data-name": name }, cell);
    })));
  return make("table", { class: "cards" }, caption ? make("caption", {}, caption) : null,
    make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...body));
}
