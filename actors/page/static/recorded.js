// The page of a recorded trace: a slider through time, steps, and the views of deliveries, requests and histories.

import { ask, forget, get, say } from "./api.js";
import { members, offsets } from "./charts.js";
import { count, h, time } from "./dom.js";
import { lanes, lanesOf, scrollToChosen } from "./lanes.js";
import { path, slow } from "./requests.js";
import { address, change, here, sticky } from "./router.js";
import { load as loadPicture, store } from "./store.js";
import { LINKED } from "./why.js";
import { table, views } from "./views.js";

const POLL_MS = 700;
const SUBJECTS = ["partition", "topic", "broker", "group", "transaction", "client"];

let source;
export let overview = {};

// ------------------------------------------------------------------------------------------------ loading

export const loading = (answer, words = "Reading the trace …") => answer.error
  ? h("p", { class: "error" }, answer.error) : h("p", { class: "quiet" }, words);

// ------------------------------------------------------------------------------------------------ the moment

sticky.add("d");

export const moment = () => Number(here().query.get("at") ?? overview.end);

// The chosen delivery: { run, seq }, or null.
export function chosen() {
  const [run, seq] = (here().query.get("d") ?? "").split("~");
  return seq ? { run, seq: Number(seq) } : null;
}

export const placeOf = ({ at, run, seq }) => ({ at, d: `${run}~${seq}` });
export const linked = (place) => address(["lanes"], placeOf({ seq: place.delivery, ...place }));

// What the steps and lanes are about: the subject of the view, or what the reader chose.
export function interest() {
  const { path: [view, name], query } = here();
  if (query.has("about")) return query.get("about");
  if (view === "controller") return "controller";
  return SUBJECTS.includes(view) && name ? `${view}:${name}` : "";
}

let pictured = null;

async function showPicture() {
  const at = moment();
  if (!overview.ready || pictured === at) return;
  pictured = at;
  try {
    const picture = await get("/api/picture", { at });
    if (pictured !== at) return;
    loadPicture(picture);
    source.render();
  } catch (error) {
    say(error.message);
  }
}

export async function step(by, back) {
  const here = chosen();
  try {
    const found = await get("/api/step", { ...(here ?? { at: moment() }), by, back: back ? 1 : null, about: interest() });
    if (found === null) say(`There is no ${back ? "earlier" : "later"} ${by}${interest() ? ` of ${interest()}` : ""} near this moment.`);
    else {
      change(placeOf(found));
      if (found.text) say(found.text);
    }
  } catch (error) {
    say(error.message);
  }
}

const KEYS = {
  ArrowRight: ["delivery", false], ArrowLeft: ["delivery", true], e: ["event", false], E: ["event", true], f: ["fact", false],
  F: ["fact", true],
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const found = KEYS[event.key];
  if (!found) return;
  event.preventDefault();
  step(...found);
}

// ------------------------------------------------------------------------------------------------ slider

const WIDTH = 1000, ROW = 13;

function slider() {
  const { begin, end, runs, marks, gaps } = overview;
  const length = Math.max(end - begin, 1e-6);
  const x = (at) => ((at - begin) / length) * WIDTH;
  const nodes = [...new Set(runs.map(({ node }) => node))].sort((a, b) => a - b);
  const height = ROW * nodes.length + 10;
  const row = (node) => nodes.indexOf(node) * ROW + 10;
  const ticks = (level) => marks.filter((mark) => mark.level === level).map((mark) => `M${x(mark.at).toFixed(1)} 0v8`).join("");
  const at = moment();
  const all = (kinds) => kinds.map(([kind, d]) => h("path", { class: kind, d, "vector-effect": "non-scaling-stroke" }));
  return h("div", { class: "slider" },
    h("div", { class: "rows", "aria-hidden": "true" }, nodes.map((node) => h("span", {}, `node ${node}`))),
    h("div", { class: "time-line" },
      h("svg", { viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", height, "aria-hidden": "true" },
        runs.map((run) => h("rect", { class: "ran", x: x(run.begin), y: row(run.node) + 1, width: Math.max(x(run.end) - x(run.begin), 1), height: ROW - 2 })),
        runs.map((run) => holes(run.strip, (from, to) => h("rect", { class: "hole", x: x(from), y: row(run.node) + 1, width: Math.max(x(to) - x(from), 0.7), height: ROW - 2 }))),
        runs.map((run) => h("path", { class: "busy", d: area(run.strip, x, row(run.node) + ROW - 1, ROW - 2) })),
        gaps.map((gap) => h("rect", { class: "hole", x: x(gap.begin), y: row(gap.node) + 1, width: Math.max(x(gap.end) - x(gap.begin), 1), height: ROW - 2 })),
        all([["mark l0", ticks(0)], ["mark l1", ticks(1)], ["mark l2", ticks(2)], ["now", `M${x(at).toFixed(2)} 0V${height}`]])),
      h("input", {
        type: "range", min: 0, max: 1e6, step: 1, value: Math.round(((at - begin) / length) * 1e6), "aria-label": "Time",
        "aria-valuetext": new Date(at * 1000).toISOString(),
        oninput: (event) => change({ at: begin + (Number(event.target.value) / 1e6) * length, d: null }),
      })));
}

// The area under the busy parts of a strip. Handled deliveries that took no measured time are shown, too.
export function area({ start, width, busy, handled }, x, base, height) {
  let d = "";
  busy.forEach((part, bin) => {
    const level = handled[bin] ? Math.max(Math.sqrt(part), 0.18) : part > 0 ? Math.sqrt(part) : 0;
    if (level) d += `M${x(start + bin * width).toFixed(1)} ${base}v${(-level * height).toFixed(1)}h${Math.max(x(start + (bin + 1) * width) - x(start + bin * width), 0.6).toFixed(1)}V${base}z`;
  });
  return d;
}

// The times in which a node handled nothing while messages waited for it: its process stood still.
export function holes({ start, width, busy, queue, handled }, draw) {
  const found = [];
  let from = null;
  for (let bin = 0; bin <= busy.length; bin++) {
    const stands = bin < busy.length && !handled[bin] && busy[bin] === 0 && queue[bin] >= 0.95;
    if (stands && from === null) from = bin;
    if (!stands && from !== null) {
      found.push(draw(start + from * width, start + bin * width));
      from = null;
    }
  }
  return found;
}

function footer() {
  const button = (text, by, back, key, words) => h("button", { title: `${words} (${key})`, "aria-label": words, onclick: () => step(by, back) }, text);
  const about = interest();
  return [
    slider(),
    h("div", { class: "steps" },
      h("span", { class: "group" }, button("◂ fact", "fact", true, "Shift+F", "Previous fact"), button("fact ▸", "fact", false, "F", "Next fact")),
      h("span", { class: "group" }, button("◂ event", "event", true, "Shift+E", "Previous event"), button("event ▸", "event", false, "E", "Next event")),
      h("span", { class: "group" }, button("◂ delivery", "delivery", true, "←", "Previous delivery"), button("delivery ▸", "delivery", false, "→", "Next delivery")),
      h("strong", { class: "at" }, time(moment())),
      about && h("span", { class: "quiet" }, `steps: ${about}`),
      !overview.ready && h("span", { class: "state s1" }, "The index of facts is being built …"),
      overview.read < 1 && h("span", { class: "quiet" }, `requests and activity: ${Math.floor(overview.read * 100)} % read`)),
  ];
}

function header() {
  requestAnimationFrame(scrollToChosen);
  const { folder, problems } = overview;
  return [
    h("span", { class: "title", title: folder }, folder.split("/").pop() || folder),
    problems.length > 0 && h("a", { class: "state s1", href: address(["trace"]) }, `${problems.length} remarks`),
    h("span", { class: "quiet" }, "UTC"),
  ];
}

// ------------------------------------------------------------------------------------------------ views

function cluster(name, given) {
  return [...views.cluster(name, given), lanesOf("", "All messages around this moment")];
}

function panels(about, name) {
  const kind = LINKED[about];
  const key = name === null ? kind : `${kind}:${name}`;
  return [
    about === "partition" && offsets(name),
    about === "consumer-group" && members(name),
    h("p", {}, h("a", { href: address(["lanes"], { about: key }) }, "Its messages"),
      about === "partition" && [" · ", h("a", { href: address(["slow"], { about: name }) }, "Its slowest requests")]),
  ];
}

function trace() {
  const { folder, deliveries, runs, problems } = overview;
  return [
    h("h1", {}, folder),
    problems.length > 0 && h("section", { "aria-label": "Remarks" }, h("h2", {}, "What is not shown"), h("ul", {}, problems.map((each) => h("li", {}, each)))),
    h("section", {}, h("h2", {}, `Runs: ${count(deliveries)} deliveries`),
      table("Runs", ["Node", "Run", "From", "To", "Deliveries", "Ended"], runs.map((run) => h("tr", {},
        h("th", { scope: "row" }, h("a", { href: address(["broker", run.node]) }, `node ${run.node}`)), h("td", { class: "id" }, run.run),
        h("td", {}, h("a", { href: address(["lanes"], { at: run.begin, d: null }) }, time(run.begin))),
        h("td", {}, h("a", { href: address(["lanes"], { at: run.end, d: null }) }, time(run.end))),
        h("td", {}, count(Math.max(run.last - run.first + 1, 0))), h("td", {}, run.ending))))),
  ];
}

function search() {
  const text = here().query.get("find") ?? "";
  const found = text ? ask("search", { text, from: here().query.get("from") }) : null;
  const place = (each, words) => h("li", {}, h("a", { href: linked(each) }, time(each.at), ` node ${each.node} `), words);
  const value = found?.value;
  return [
    h("section", {}, h("h2", {}, "Search"),
      h("input", {
        type: "search", class: "find", value: text, placeholder: "A subject, words of a fact, or text in a message", "aria-label": "Search",
        onchange: (event) => change({ find: event.target.value }, true),
      }),
      found && !value && loading(found)),
    value && h("section", {}, h("h2", {}, `Subjects: ${value.subjects.length}`), h("p", {}, value.subjects.map(([kind, name]) =>
      [h("a", { href: address([kind, name]) }, `${kind} ${name}`), " "]))),
    value && h("section", {}, h("h2", {}, `Facts: ${value.facts.length}`), h("ul", { class: "found" }, value.facts.map((fact) => place(fact, fact.text)))),
    value && h("section", {}, h("h2", {}, `Messages: ${value.deliveries.length}${value.deliveries.length >= 100 ? " (the first)" : ""}`),
      h("ul", { class: "found" }, value.deliveries.map((each) => place(each, `${each.title} to ${each.to}`)))),
  ];
}

// This run and another one around the same moment after their beginnings; the first fact that differs is marked.
function compare() {
  const answer = ask("compare", { at: moment() });
  const { value } = answer;
  if (!value) return [loading(answer)];
  const after = (since) => `+${since.toFixed(3)} s`;
  const first = value.sides[0].first ?? value.sides[1].first;
  const to = (since) => address(["compare"], { at: overview.begin + since, d: null });
  return [
    h("h1", {}, value.same ? "Both runs have the same facts" : "Two runs"),
    first && h("p", { class: "verdict" }, "The first fact that differs is ", h("a", { href: to(first.since) }, after(first.since)), " after the beginning."),
    h("div", { class: "columns" }, value.sides.map((side, index) => h("section", { "aria-label": side.folder },
      h("h2", {}, index ? h("a", { href: `${side.url}#/lanes?at=${side.at}` }, side.folder) : side.folder),
      h("p", { class: "quiet" }, `${after(value.since)}: controller ${side.controller ?? "none"}; `, side.brokers.map(([id, process]) => `broker ${id} ${process}`).join(", ")),
      h("ol", { class: "found" }, side.facts.map((fact) => h("li", { class: fact.passed ? null : "quiet" },
        h("a", { href: index ? `${side.url}#/lanes?at=${fact.at}&d=${fact.run}~${fact.seq}` : linked(fact) }, after(fact.since), ` node ${fact.node} `),
        side.first && fact.seq === side.first.seq && fact.run === side.first.run && fact.text === side.first.text ? h("mark", {}, fact.text) : fact.differs ? h("em", {}, fact.text) : fact.text)))))),
  ];
}

export async function start(given) {
  source = given;
  overview = await get("/api/overview");
  document.head.append(h("link", { rel: "stylesheet", href: "recorded.css" }));
  document.body.classList.add("recorded");
  Object.assign(source, {
    header, footer, panels, linked,
    views: { cluster, lanes, slow, path, search, trace, compare },
    tabs: [
      [["lanes"], "Messages"], [["slow"], "Slow requests"], [["search"], "Search"], [["trace"], "Recording"],
      ...(overview.compares ? [[["compare"], "Compare"]] : []),
    ],
  });
  addEventListener("keydown", pressed);
  addEventListener("hashchange", showPicture);
  store.at = 0;
  await showPicture();
  if (!overview.ready || overview.read < 1) setTimeout(poll, POLL_MS);
}

async function poll() {
  try {
    const before = overview;
    overview = await get("/api/overview");
    if (before.ready !== overview.ready || overview.read === 1) forget();
    await showPicture();
    source.render();
  } finally {
    if (!overview.ready || overview.read < 1) setTimeout(poll, POLL_MS);
  }
}
