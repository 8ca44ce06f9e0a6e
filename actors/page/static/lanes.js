// The lanes: a line for each actor, a mark for each delivery, an arrow from each message's cause.

import { ask } from "./api.js";
import { count, h, time } from "./dom.js";
import { delivery } from "./delivery.js";
import { area, chosen, holes, interest, loading, moment, overview, placeOf } from "./recorded.js";
import { address, change, here } from "./router.js";

const LANE = 18, NODE = 26, TOP = 42, SHOWN = 120, MOST = 480, LEAST = 15, LETTER = 5.6;
const WIDTH = 1000;

// ------------------------------------------------------------------------------------------------ drawing

// Positions: each delivery is right of the one before it, the further the longer the time between them, by its logarithm,
// so that a microsecond and a minute are both visible. `x(at)` is the position of any time.
function scale(deliveries, step = 11) {
  const times = deliveries.map(({ at }) => at);
  const places = [10];
  for (let index = 1; index < times.length; index++) {
    places.push(places[index - 1] + step + 12 * Math.log10(1 + Math.max(times[index] - times[index - 1], 0) / 2e-5));
  }
  const total = places.at(-1) + 90;
  const stretch = total < WIDTH ? WIDTH / total : 1;
  places.forEach((place, index) => (places[index] = place * stretch));
  const x = (at) => {
    let low = 0, high = times.length - 1;
    if (at <= times[0]) return places[0];
    if (at >= times[high]) return places[high];
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (times[middle] <= at) low = middle;
      else high = middle;
    }
    return places[low] + ((at - times[low]) / (times[high] - times[low])) * (places[high] - places[low]);
  };
  const place = new Map(deliveries.map((each, index) => [each, places[index]]));
  return { x, place: (each) => place.get(each), places, times, width: total * stretch };
}

export const span = (seconds) => {
  const size = Math.abs(seconds);
  if (size >= 1) return `${seconds.toFixed(size < 10 ? 2 : 1)} s`;
  if (size >= 1e-3) return `${(seconds * 1e3).toFixed(size < 1e-2 ? 2 : 1)} ms`;
  return `${Math.round(seconds * 1e6)} µs`;
};

const id = ([run, seq]) => `${run}~${seq}`;

// Draw deliveries. `runs` are those of the trace; `strong` has the ids of deliveries whose arrows are thick; `gap` has
// the indexes of two deliveries between which the time is shaded, and a text.
export function drawing({ deliveries, lanes, facts = [], strips = [], logs = [], runs, selected, strong = new Set(), gap, step, keep = {} }) {
  const rows = new Map();
  const nodes = [];
  let y = TOP;
  for (const lane of lanes) {
    if (nodes.at(-1)?.run !== lane.run) {
      nodes.push({ run: lane.run, node: lane.node, y });
      y += NODE;
    }
    rows.set(`${lane.run} ${lane.address}`, y + LANE / 2);
    y += LANE;
  }
  const height = y + 8;
  const { x, place, places, times, width } = scale(deliveries, step);
  const byId = new Map(deliveries.map((each) => [id([each.run, each.seq]), each]));
  const lane = (each) => rows.get(`${each.run} ${each.to}`);
  const next = new Map();
  const last = new Map();
  for (const each of deliveries) {
    const key = `${each.run} ${each.to}`;
    if (last.has(key)) next.set(last.get(key), place(each));
    last.set(key, each);
  }
  const arrows = deliveries.map((each) => {
    const cause = each.cause && byId.get(id(each.cause));
    if (!cause) return null;
    const [fromX, fromY, toX, toY] = [place(cause), lane(cause), place(each), lane(each)];
    const bend = Math.max(Math.min((toX - fromX) / 2, 60), 6);
    const thick = strong.has(id([each.run, each.seq])) && strong.has(id(each.cause));
    const kind = `arrow ${each.crossed ? "crossed" : ""} ${each.kind === "timer" ? "timer" : ""} ${thick ? "thick" : ""}`;
    return h("path", { class: kind, d: `M${fromX.toFixed(1)} ${fromY}C${(fromX + bend).toFixed(1)} ${fromY} ${(toX - bend).toFixed(1)} ${toY} ${toX.toFixed(1)} ${toY}` },
      h("title", {}, `${span(each.at - cause.at)}: ${cause.title} → ${each.title}`));
  });
  const marks = deliveries.map((each) => {
    const key = id([each.run, each.seq]);
    const where = { at: each.at, run: runs[each.run].run, seq: each.seq };
    const isChosen = selected && selected.run === where.run && selected.seq === each.seq;
    const left = place(each);
    const room = (next.get(each) ?? width) - left - 12;
    const letters = Math.floor(room / (strong.has(key) ? LETTER + 1.2 : LETTER));
    const words = `${each.title} to ${each.to}, ${new Date(each.at * 1000).toISOString()}${each.error ? `, ERROR ${each.error}` : ""}`;
    return h("a", { svg: true, key, href: address(here().path, { ...keep, ...placeOf(where) }), class: `mark ${each.look} ${isChosen ? "chosen" : ""} ${strong.has(key) ? "strong" : ""}`, "aria-label": words },
      h("title", {}, `${words}${each.calls ? `\n${each.calls}` : ""}`),
      h("rect", { x: (left - 4).toFixed(1), y: lane(each) - 4.5, width: Math.max(each.took > 0 ? Math.min(x(each.at + each.took / 1000) - left, room) : 0, 8).toFixed(1), height: 9, rx: 2 }),
      letters > 3 && h("text", { x: (left + 7).toFixed(1), y: lane(each) + 4 }, each.title.length > letters ? `${each.title.slice(0, letters - 1)}…` : each.title));
  });
  const lines = logs.map((line, index) => {
    const [left, y] = [x(line.at), rows.get(`${line.run} outside:log`)];
    const after = logs.slice(index + 1).find(({ run }) => run === line.run);
    const letters = Math.floor(((after ? x(after.at) : width) - left - 12) / LETTER);
    return h("g", { class: `log l${line.level}`, role: "img", "aria-label": line.text },
      h("title", {}, `${new Date(line.at * 1000).toISOString()}\n${line.text}`), h("circle", { cx: left.toFixed(1), cy: y, r: 3.5 }),
      letters > 3 && h("text", { x: (left + 7).toFixed(1), y: y + 4 }, line.text.length > letters ? `${line.text.slice(0, letters - 1)}…` : line.text));
  });
  return h("div", { class: "lanes" },
    h("svg", { class: "names", width: 190, height },
      nodes.map((node) => h("text", { class: "node", x: 0, y: node.y + 17 }, `node ${node.node}`)),
      lanes.map((each) => h("text", { x: 8, y: rows.get(`${each.run} ${each.address}`) + 4 }, short(each.address)))),
    h("div", { class: "scroll", tabindex: "0", "aria-label": "Messages by time" }, h("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group" },
      gap && h("rect", { class: "gap", x: places[gap.from], y: TOP - 16, width: places[gap.to] - places[gap.from], height: height - TOP + 16 }),
      gap && h("text", { class: "gap", x: places[gap.from], y: TOP - 20 }, gap.text),
      [...rows.values()].map((at) => h("path", { class: "lane", d: `M0 ${at}H${width}` })),
      nodes.map((node) => strips[node.run] && strip(strips[node.run], x, node.y, width)),
      axis(times, places, height, gap?.to),
      facts.map((fact) => h("a", { svg: true, href: address(here().path, { ...keep, ...placeOf(fact) }), class: "fact", "aria-label": fact.text },
        h("title", {}, fact.text), h("path", { d: `M${x(fact.at).toFixed(1)} ${TOP - 12}l4 6l-4 6l-4 -6z` }))),
      arrows, marks, lines)));
}

const short = (address) => {
  const text = address.startsWith("outside:") ? address.slice(8) : address;
  return text.length > 31 ? `${text.slice(0, 30)}…` : text;
};

function strip(each, x, y, width) {
  const longest = Math.max(1, ...each.queue);
  const line = each.queue.map((queue, bin) => `${bin ? "L" : "M"}${x(each.start + bin * each.width).toFixed(1)} ${(y + NODE - 5 - (queue / longest) * 14).toFixed(1)}`).join("");
  return [
    h("path", { class: "strip-base", d: `M0 ${y + NODE - 4}H${width}` }),
    holes(each, (from, to) => h("rect", { class: "hole", x: x(from), y: y + 6, width: Math.max(x(to) - x(from), 1), height: NODE - 10 },
      h("title", {}, "messages waited, and the node handled nothing"))),
    h("path", { class: "busy", d: area(each, x, y + NODE - 4, 15) }),
    Math.max(...each.queue) > 0.01 && h("path", { class: "queue", d: line }, h("title", {}, `queue: up to ${longest.toFixed(1)} messages`)),
  ];
}

// Times along the top, where there is room; long pauses are named.
function axis(times, places, height, shaded) {
  const found = [];
  let free = -1e9, said = "";
  times.forEach((at, index) => {
    const pause = index && at - times[index - 1];
    const [before, here] = [places[index - 1], places[index]];
    if (pause > 0.02 && index !== shaded) {
      found.push(h("rect", { class: "pause", x: before + 6, y: TOP - 16, width: Math.max(here - before - 12, 0), height: height - TOP + 16 }));
    }
    if (pause > 0.02 && here - before > 40) {
      found.push(h("text", { class: "pause", x: (before + here) / 2, y: height - 2, "text-anchor": "middle" }, span(pause)));
    }
    const text = new Date(at * 1000).toISOString().slice(11, 23);
    if (here - free > 84 && text !== said) {
      found.push(h("text", { class: "axis", x: here, y: 10 }, text), h("path", { class: "axis", d: `M${here.toFixed(1)} 13V${height - 12}` }));
      [free, said] = [here, text];
    }
  });
  return found;
}

// ------------------------------------------------------------------------------------------------ the view

let frame = null;

// The lanes around the moment. They are loaded again only if the moment is near their end or outside.
function around(about) {
  const at = moment();
  const wanted = Number(here().query.get("n") ?? SHOWN);
  const selected = chosen();
  if (frame?.about === about && frame.wanted === wanted && frame.answer.value) {
    const { deliveries, first, last, start, end } = frame.answer.value;
    const place = deliveries.findIndex((each) => each.at >= at);
    const inside = at >= start && at <= end && (first || place > deliveries.length / 8) && (last || place < (deliveries.length * 7) / 8);
    if (inside) return frame.answer;
  }
  const answer = ask("lanes", { at, ...(selected ?? {}), most: wanted, about });
  if (answer.value || !frame || frame.about !== about) frame = { about, wanted, answer };
  return frame.answer;
}

export function lanesOf(about, title) {
  const answer = around(about);
  const { value } = answer;
  const wanted = Number(here().query.get("n") ?? SHOWN);
  const zoom = (text, to, words) => h("button", { "aria-label": words, title: words, disabled: to === wanted, onclick: () => change({ n: to }) }, text);
  return h("section", { class: "messages", "aria-label": title },
    h("div", { class: "bar" }, h("h2", {}, title),
      zoom("−", Math.min(wanted * 2, MOST), "More deliveries"), zoom("+", Math.max(Math.ceil(wanted / 2), LEAST), "Fewer deliveries"),
      value && h("span", { class: "quiet" }, `${count(value.deliveries.length)} of ${count(value.count)} deliveries in ${span(value.end - value.start)}`),
      (overview.skews ?? []).map((skew) => h("span", { class: `skew ${skew.certain ? "state s1" : "quiet"}`, title: "Clock of the second node relative to the first, estimated from requests" },
        `clock ${skew.node}→${skew.other}: ${span(skew.seconds)} ± ${span(skew.uncertainty)}${skew.certain ? ", subtracted" : ""}`))),
    value ? (value.deliveries.length
      ? drawing({ ...value, runs: overview.runs, selected: chosen(), strong: causesOf(value), keep: { n: here().query.get("n"), about: here().query.get("about") } })
      : h("p", { class: "quiet" }, "No message of this subject is recorded near this moment.")) : loading(answer));
}

// The ids of the chosen delivery and its causes, as far as they are known.
function causesOf(value) {
  const selected = chosen();
  if (!selected) return new Set();
  const answer = ask("delivery", selected).value;
  const places = new Map(overview.runs.map((run, place) => [run.run, place]));
  const found = [selected, ...(answer?.causes ?? [])];
  return new Set(found.map((each) => id([places.get(each.run), each.seq])));
}

const INTERESTS = ["", "controller", "actor:ControllerActor", "message:ClientRequest"];

function choice(about) {
  const subjects = Object.entries(overview.subjects ?? {}).flatMap(([kind, names]) => names.map((name) => `${kind}:${name}`));
  return h("label", { class: "choice" }, "Show ",
    h("input", {
      list: "interests", class: "find", value: about, placeholder: "everything", "aria-label": "Subject of the messages",
      onchange: (event) => change({ about: event.target.value }, true),
    }),
    h("datalist", { id: "interests" }, [...INTERESTS, ...subjects.slice(0, 500)]
      .map((value) => h("option", { value }))));
}

// Scroll to the chosen delivery when another one was chosen.
let scrolledTo = "";
export function scrollToChosen() {
  const mark = document.querySelector("a.mark.chosen");
  const key = here().query.get("d") ?? "";
  if (!mark || key === scrolledTo) return;
  scrolledTo = key;
  const box = mark.closest(".scroll");
  const x = mark.querySelector("rect").x.baseVal.value;
  if (x < box.scrollLeft + 40 || x > box.scrollLeft + box.clientWidth - 80) box.scrollLeft = x - box.clientWidth / 2;
}

export function lanes() {
  const about = interest();
  const selected = chosen();
  return [
    h("div", { class: "lead" }, choice(about), about && h("button", { onclick: () => change({ about: null }, true) }, "Show everything")),
    lanesOf(about, about || "All messages"),
    selected ? delivery(selected) : h("p", { class: "quiet" }, "Choose a delivery, or step with the arrow keys. ", time(moment())),
  ];
}
