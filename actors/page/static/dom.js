// Elements of the page. All texts are set as text, never as markup.

const SVG = new Set(["svg", "g", "path", "line", "rect", "circle", "text", "polyline", "polygon", "title", "defs", "marker"]);

// h("a", { href: "#/", class: "x", onclick: f, disabled: true }, "text", [more], null) -> an element. An attribute that
// is null, undefined or false is left out. `key` identifies an element among its siblings when the page is rendered again;
// `svg` says that an element, such as a link, is one of SVG.
export function h(tag, attributes, ...children) {
  const element = attributes?.svg ?? SVG.has(tag)
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false || name === "svg") continue;
    if (name.startsWith("on")) element[name] = value;
    else if (name === "key") element.dataset.key = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(element, child);
    else if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

const HANDLERS = ["onclick", "onchange", "oninput", "onkeydown", "onsubmit", "onpointerdown"];

// Replace the content of an element by that of another one. What is equal stays, so that focus and scrolling stay too.
export function morph(old, fresh) {
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const name of HANDLERS) if (old[name] !== fresh[name]) old[name] = fresh[name];
  if (old instanceof HTMLInputElement && document.activeElement !== old && old.value !== fresh.value) old.value = fresh.value;
  const keyed = new Map();
  for (const child of old.children) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  let at = old.firstChild;
  for (const next of [...fresh.childNodes]) {
    const key = next.dataset?.key;
    const same = key ? keyed.get(key) : at && !at.dataset?.key ? at : null;
    if (same && same.nodeName === next.nodeName) {
      if (same === at) at = at.nextSibling;
      else old.insertBefore(same, at);
      if (key) keyed.delete(key);
      if (same.nodeType === Node.TEXT_NODE) {
        if (same.data !== next.data) same.data = next.data;
      } else morph(same, next);
    } else old.insertBefore(next, at);
  }
  while (at) {
    const after = at.nextSibling;
    at.remove();
    at = after;
  }
}

const TIME = { hour12: false, timeZone: "UTC", hour: "2-digit", minute: "2-digit", second: "2-digit" };
const clock = new Intl.DateTimeFormat("en-GB", { ...TIME, fractionalSecondDigits: 3 });

// The time of day in UTC; seconds since 1970 in, a <time> with the whole time as its title out.
export function time(at) {
  if (!at) return h("span", { class: "quiet" }, "–");
  const date = new Date(at * 1000);
  return h("time", { datetime: date.toISOString(), title: date.toISOString() }, clock.format(date));
}

export const count = (number) => number.toLocaleString("en").replaceAll(",", "\u202f");
export const ids = (brokers) => (brokers.length ? brokers.join(" ") : "none");
export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;
