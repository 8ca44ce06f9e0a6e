// The views of a picture. Each is a function of (name, source) that returns the elements of the view.

import { count, h, ids, plural, time } from "./dom.js";
import { ask } from "./api.js";
import { address, change, here } from "./router.js";
import { OFFLINE, OK, STATES, isPaused, store, summary } from "./store.js";
import { subject, why } from "./why.js";

const CELLS = 1000;
const STRIP = 72;
const TOPICS = 50;
const LINES = 60;
const ROWS = 200;

export const TABS = [
  [[], "Cluster"], [["topics"], "Topics"], [["groups"], "Groups"], [["transactions"], "Transactions"],
  [["refused"], "Refused"], [["events"], "Events"],
];

// A table with these heads, or a text if it has no row. A head that begins with "#" is that of numbers.
export const table = (caption, heads, rows, empty) => rows.length === 0
  ? h("p", { class: "quiet" }, empty)
  : h("div", { class: "scroll" }, h("table", {},
    h("caption", { class: "hidden" }, caption),
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", { scope: "col", class: head.startsWith("#") ? "number" : null },
      head.replace(/^#/, ""))))),
    h("tbody", {}, rows)));

const section = (title, ...content) => {
  const id = `s-${title.toLowerCase().replace(/\W+/g, "-")}`;
  return h("section", { "aria-labelledby": id, key: id }, h("h2", { id }, title), ...content);
};

// Names and values.
export const facts = (rows) => h("dl", { class: "facts" }, rows.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));

const state = (level, text) => h("span", { class: `state s${level}` }, text);

const brokerLink = (id) => (id >= 0 ? h("a", { href: address(["broker", id]) }, String(id)) : state(OFFLINE, "none"));

// ------------------------------------------------------------------------------------------------ cluster

export function cluster(_, source) {
  return [
    tiles(),
    h("div", { class: "columns" },
      h("div", {},
        section("Brokers", brokers(source)),
        store.effects.length > 0 && section("In effect", effects(source)),
        section("Topics", topicTable())),
      section("Events", feed(store.feed.slice(0, LINES)),
        store.feed.length > LINES && h("p", {}, h("a", { href: address(["events"]) }, "All events")))),
    why("cluster", null, source),
  ];
}

function tiles() {
  const { counts, partitions } = summary();
  const { controller, controller_epoch: epoch } = store.cluster;
  const up = store.brokers.filter((broker) => broker.live && broker.process === "running").length;
  const tile = (label, value, path, level = OK, detail = "") => h("a", { class: `tile s${level}`, href: address(path) },
    h("span", { class: "label" }, label), h("span", { class: "value" }, value), h("span", { class: "detail" }, detail));
  return h("nav", { class: "tiles", "aria-label": "Summary" },
    tile("Brokers", `${up}/${store.brokers.length}`, [], up < store.brokers.length ? OFFLINE : OK, "running"),
    tile("Controller", controller ?? "none", ["controller"], controller === null ? OFFLINE : OK, epoch ? `epoch ${epoch}` : ""),
    tile("Partitions", count(partitions), ["topics"], OK, plural(store.topics.size, "topic")),
    tile("Offline", count(counts[3]), ["topics"], counts[3] ? 3 : OK),
    tile("Under min ISR", count(counts[2]), ["topics"], counts[2] ? 2 : OK),
    tile("Under-replicated", count(counts[1]), ["topics"], counts[1] ? 1 : OK),
    tile("Groups", store.groups.length, ["groups"], OK),
    tile("Transactions", store.transactions.length, ["transactions"], OK, "under way"),
    tile("Refused", count(store.refused.reduce((sum, row) => sum + row.times, 0)), ["refused"], OK, "requests"));
}

function brokerState(broker) {
  if (isPaused(broker)) return state(2, "paused");
  if (broker.process === "running") {
    return broker.live ? state(OK, "running") : state(1, broker.session === "expired" ? "session expired" : "not registered");
  }
  if (broker.process === "unknown") return broker.live ? state(OK, "registered") : state(OFFLINE, "gone");
  return state(OFFLINE, broker.process + (broker.live ? ", still registered" : ""));
}

function brokers(source) {
  const { brokers: counts } = summary();
  const most = Math.max(1, ...[...counts.values()].map(({ leads, follows, out }) => leads + follows + out));
  return table("Brokers", ["#Id", "State", "#Epoch", "#Leads", "#Follows", "#Out of ISR", "Replicas", "Faults", ...(source.actions.length ? ["Do"] : [])],
    store.brokers.map((broker) => {
      const { leads, follows, out } = counts.get(broker.id) ?? { leads: 0, follows: 0, out: 0 };
      return h("tr", { key: `b${broker.id}` },
        h("th", { scope: "row", class: "number" }, brokerLink(broker.id)),
        h("td", {}, brokerState(broker), broker.id === store.cluster.controller && h("span", { class: "tag" }, "controller")),
        h("td", { class: "number" }, broker.epoch ?? "–"),
        h("td", { class: "number" }, count(leads)),
        h("td", { class: "number" }, count(follows)),
        h("td", { class: `number ${out ? "s1 state" : ""}` }, count(out)),
        h("td", {}, bar([[leads, "leads"], [follows, "follows"], [out, "out"]], most)),
        h("td", {}, broker.faults.join(", ")),
        source.actions.length > 0 && h("td", { class: "actions" }, source.buttons(broker, true)));
    }), "No broker is recorded yet.");
}

function bar(parts, most) {
  let x = 0;
  return h("svg", { class: "bar-chart", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
    parts.map(([number, kind]) => {
      const width = (number / most) * 100;
      x += width;
      return h("rect", { class: kind, x: x - width, y: 0, width, height: 8 });
    }));
}

function effects(source) {
  return h("ul", { class: "effects" }, store.effects.map((effect) => h("li", { key: effect.text },
    h("span", {}, effect.text),
    effect.do && h("button", { onclick: () => source.act(effect.do, effect.with) }, "Undo"))));
}

// ------------------------------------------------------------------------------------------------ topics

export function topics() {
  return [section("Topics", topicTable(), legend())];
}

function topicTable() {
  const { query } = here();
  const find = query.get("find") ?? "";
  const shown = Number(query.get("show") ?? TOPICS);
  const found = summary().topics.filter(({ topic }) => topic.name.includes(find));
  return [
    h("input", {
      type: "search", class: "find", value: find, placeholder: "Filter topics  ( / )", "aria-label": "Filter topics",
      oninput: (event) => change({ find: event.target.value }),
    }),
    table("Topics", ["Topic", "#Partitions", "Heat map", "State"], found.slice(0, shown).map(topicRow),
      find ? `No topic contains “${find}”.` : "No topic is recorded yet."),
    found.length > shown && h("p", {}, h("button", { onclick: () => change({ show: shown + 4 * TOPICS }) },
      `Show more: ${count(found.length - shown)} left`)),
  ];
}

function topicRow({ topic, states, counts, worst }) {
  const words = worst === OK ? state(OK, STATES[OK])
    : [3, 2, 1].filter((level) => counts[level]).map((level) => [state(level, `${count(counts[level])} ${STATES[level]}`), " "]);
  return h("tr", { key: `t${topic.name}` },
    h("th", { scope: "row" }, h("a", { href: address(["topic", topic.name]) }, topic.name)),
    h("td", { class: "number" }, count(states.length)),
    h("td", {}, strip(states)),
    h("td", {}, words));
}

// At most STRIP cells: a cell of several partitions has the state of the worst one.
function strip(states) {
  const cells = Math.min(STRIP, states.length);
  const worst = Array(cells).fill(OK);
  states.forEach((level, row) => {
    const cell = Math.floor((row * cells) / states.length);
    if (level > worst[cell]) worst[cell] = level;
  });
  return h("span", { class: "strip", "aria-hidden": "true" }, worst.map((level) => h("i", { class: `s${level}` })));
}

const legend = () => h("p", { class: "legend" }, STATES.map((text, level) => [h("i", { class: `s${level}` }), `${text} `]));

export function topic(name, source) {
  const found = summary().topics.find((each) => each.topic.name === name);
  if (!found) return [h("h1", {}, name), h("p", { class: "quiet" }, "This topic is not in the picture."), why("topic", name, source)];
  const { topic: rows, states, counts } = found;
  const page = Number(here().query.get("page") ?? 0);
  const order = [...states.keys()].sort((a, b) => rows.numbers[a] - rows.numbers[b]);
  const shown = order.slice(page * CELLS, (page + 1) * CELLS);
  const odd = states.length <= ROWS ? order : order.filter((row) => states[row] !== OK);
  const pages = Math.ceil(states.length / CELLS);
  return [
    h("h1", {}, name),
    h("p", { class: "lead" }, plural(states.length, "partition"), ": ",
      counts.map((number, level) => number > 0 && [state(level, `${count(number)} ${STATES[level]}`), " "])),
    section("Partitions by leader",
      h("ul", { class: "grid" }, shown.map((row) => {
        const [leader, isr, replicas] = [rows.leaders[row], rows.isrs[row], rows.replicas[row]];
        const text = `${name}-${rows.numbers[row]}: ${STATES[states[row]]}, leader ${leader < 0 ? "none" : leader}, ISR ${ids(isr)}, replicas ${ids(replicas)}`;
        return h("li", { key: `p${rows.numbers[row]}` },
          h("a", { class: `cell s${states[row]}`, href: address(["partition", `${name}-${rows.numbers[row]}`]), title: text, "aria-label": text },
            leader < 0 ? "–" : String(leader)));
      })),
      pages > 1 && h("nav", { class: "pages", "aria-label": "Pages" },
        page > 0 && h("a", { href: address(["topic", name], { page: page - 1 }) }, "Previous"),
        `${count(page * CELLS)} to ${count(Math.min((page + 1) * CELLS, states.length) - 1)} of ${count(states.length)}`,
        page < pages - 1 && h("a", { href: address(["topic", name], { page: page + 1 }) }, "Next")),
      legend()),
    section(states.length <= ROWS ? "Partitions" : "Partitions that are not in sync",
      table("Partitions", ["#Partition", "#Leader", "ISR", "Replicas", "State"], odd.slice(0, ROWS).map((row) => h("tr", { key: `r${rows.numbers[row]}` },
        h("th", { scope: "row", class: "number" }, h("a", { href: address(["partition", `${name}-${rows.numbers[row]}`]) }, String(rows.numbers[row]))),
        h("td", { class: "number" }, brokerLink(rows.leaders[row])),
        h("td", {}, ids(rows.isrs[row])),
        h("td", {}, ids(rows.replicas[row])),
        h("td", {}, state(states[row], STATES[states[row]])))), "All are in sync.")),
    why("topic", name, source),
    about("topic", name),
  ];
}

// ------------------------------------------------------------------------------------------------ one subject

// The lines of the feed about a subject; those of its partitions, too, for a topic.
function about(kind, name) {
  const mine = ({ about: of, name: its }) => of === kind && its === name
    || (kind === "topic" && of === "partition" && its?.slice(0, its.lastIndexOf("-")) === name);
  const lines = store.feed.filter(mine).slice(0, LINES);
  return section("Events", lines.length ? feed(lines) : h("p", { class: "quiet" }, "The feed has no event about it."));
}

export function partition(name, source) {
  const at = name.lastIndexOf("-");
  const [topicName, number] = [name.slice(0, at), Number(name.slice(at + 1))];
  const found = summary().topics.find((each) => each.topic.name === topicName);
  const row = found?.topic.numbers.indexOf(number) ?? -1;
  if (row < 0) return [h("h1", {}, name), h("p", { class: "quiet" }, "This partition is not in the picture."), why("partition", name, source)];
  const { topic: rows, states } = found;
  const more = ask("partition", { name, at: here().query.get("at") }, [rows.leaders[row], rows.isrs[row], rows.replicas[row]]).value;
  const out = rows.replicas[row].filter((id) => !rows.isrs[row].includes(id));
  return [
    h("p", { class: "path" }, h("a", { href: address(["topic", topicName]) }, topicName)),
    h("h1", {}, name, " ", state(states[row], STATES[states[row]])),
    facts([
      ["Leader", brokerLink(rows.leaders[row])],
      ["ISR", ids(rows.isrs[row])],
      ["Replicas", ids(rows.replicas[row])],
      ["Not in the ISR", out.length ? state(1, ids(out)) : "none"],
      ["min.insync.replicas", rows.minimums[row]],
      ["Leader epoch", more ? more.epoch : "–"],
      ["Led since", more ? time(more.since) : "–"],
      ["Last written by", more?.by ? more.by.replace(/,.*/, "") : "–"],
      ...(more && (more.adding.length || more.removing.length)
        ? [["Reassignment", `adding ${ids(more.adding)}, removing ${ids(more.removing)}`]] : []),
    ]),
    source.panels("partition", name),
    why("partition", name, source),
    about("partition", name),
  ];
}

export function broker(name, source) {
  const found = store.brokers.find(({ id }) => String(id) === name);
  if (!found) return [h("h1", {}, `Broker ${name}`), h("p", { class: "quiet" }, "This broker is not in the picture."), why("broker", name, source)];
  const { leads, follows, out } = summary().brokers.get(found.id);
  const led = summary().topics
    .map(({ topic: rows, states }) => {
      const own = [...states.keys()].filter((row) => rows.replicas[row].includes(found.id));
      return { rows, states: own.map((row) => (rows.isrs[row].includes(found.id) ? states[row] : Math.max(1, states[row]))), leads: own.filter((row) => rows.leaders[row] === found.id).length };
    })
    .filter(({ states }) => states.length);
  return [
    h("h1", {}, `Broker ${name} `, brokerState(found)),
    facts([
      ["Controller", found.id === store.cluster.controller ? `yes, epoch ${store.cluster.controller_epoch}` : "no"],
      ["Broker epoch", found.epoch ?? "–"],
      ["ZooKeeper session", found.session || "–"],
      ["Since", time(found.since)],
      ["Leads", count(leads)], ["Follows", count(follows)], ["Out of ISR", out ? state(1, count(out)) : "0"],
      ["Injected faults", found.faults.join(", ") || "none"],
    ]),
    source.actions.length > 0 && section("Inject faults", h("div", { class: "actions wide" }, source.buttons(found, false))),
    store.effects.length > 0 && section("In effect", effects(source)),
    source.panels("broker", name),
    why("broker", name, source),
    section("Its replicas by topic", table("Its replicas", ["Topic", "#Replicas", "#Leads", "Heat map"],
      led.slice(0, ROWS).map(({ rows, states, leads: own }) => h("tr", { key: `t${rows.name}` },
        h("th", { scope: "row" }, h("a", { href: address(["topic", rows.name]) }, rows.name)),
        h("td", { class: "number" }, count(states.length)), h("td", { class: "number" }, count(own)),
        h("td", {}, strip(states)))), "It has no replica.")),
    about("broker", name),
  ];
}

export function controller(_, source) {
  const { controller: id, controller_epoch: epoch, controller_since: since } = store.cluster;
  return [
    h("h1", {}, "Controller"),
    facts([["Broker", id === null ? state(OFFLINE, "none") : brokerLink(id)], ["Controller epoch", epoch ?? "–"], ["Since", time(since)]]),
    source.panels("controller", null),
    why("controller", null, source),
    section("Events", feed(store.feed.filter((line) => line.about === "controller").slice(0, LINES))),
  ];
}

export function groups() {
  return [section("Consumer groups", table("Groups", ["Group", "State", "#Members", "#Generation", "Coordinator", "Since"],
    store.groups.map((group) => h("tr", { key: group.group },
      h("th", { scope: "row" }, h("a", { href: address(["group", group.group]) }, group.group)),
      h("td", {}, groupState(group)),
      h("td", { class: "number" }, Object.keys(group.members).length),
      h("td", { class: "number" }, group.generation ?? "–"),
      h("td", {}, brokerLink(group.coordinator)),
      h("td", {}, time(group.since)))), "No consumer group is recorded yet."))];
}

const groupState = ({ state: name }) => state(/Rebalance/.test(name) ? 1 : OK, name || "–");

export function group(name, source) {
  const found = store.groups.find((each) => each.group === name);
  return [
    h("h1", {}, name, " ", found && groupState(found)),
    found && facts([["Coordinator", brokerLink(found.coordinator)], ["Generation", found.generation ?? "–"], ["Since", time(found.since)]]),
    found && section("Members", table("Members", ["Client", "Member"], Object.entries(found.members).map(([member, client]) =>
      h("tr", { key: member }, h("th", { scope: "row" }, client || "–"), h("td", { class: "id" }, member))), "It has no member.")),
    source.panels("consumer-group", name),
    why("consumer-group", name, source),
    about("consumer-group", name),
  ];
}

// The lag of a group, as the server answered; `linked` is a function for the address of a recorded delivery.
export const lags = ({ value, error }, linked) => [h("h2", {}, "Lag"), value
  ? table("Lag", ["Partition", "#Committed", "#Log end", "#Lag", "Committed at"], value.map((each) => h("tr", { key: each.partition },
    h("th", { scope: "row" }, h("a", { href: address(["partition", each.partition]) }, each.partition)),
    h("td", { class: "number" }, count(each.committed)), h("td", { class: "number" }, each.end === null ? "–" : count(each.end)),
    h("td", { class: "number" }, each.lag === null ? "–" : count(each.lag)),
    h("td", {}, linked ? h("a", { href: linked(each) }, time(each.at)) : time(each.at)))), "The group has committed no offset yet.")
  : h("p", { class: error ? "error" : "quiet" }, error ?? "Reading the trace …")];

export function transactions() {
  return [section("Transactions under way", table("Transactions", ["Transactional id", "State", "#Producer id", "#Epoch", "Client", "Since", "Partitions"],
    store.transactions.map((open) => h("tr", { key: open.id },
      h("th", { scope: "row" }, h("a", { href: address(["transaction", open.id]) }, open.id)),
      h("td", {}, state(open.state === "PrepareAbort" ? 1 : OK, open.state)),
      h("td", { class: "number" }, open.producer_id), h("td", { class: "number" }, open.producer_epoch),
      h("td", {}, open.client), h("td", {}, time(open.since)),
      h("td", {}, open.partitions.slice(0, 5).join(", "), open.partitions.length > 5 && ` and ${open.partitions.length - 5} more`))),
    "No transaction is under way."))];
}

// A subject of which the picture has no more than its events.
const named = (kind) => (name, source) => [
  h("h1", {}, name), source.panels(kind, name), why(kind, name, source), about(kind, name),
];
export const transaction = named("transaction");
export const producer = named("producer");
export const client = named("client");

export function refused() {
  return [section("Requests that were refused", table("Refused requests", ["Request", "Error", "Client", "#Times", "Last", "#Node", "Last about"],
    store.refused.slice(0, ROWS).map((row) => h("tr", { key: [row.api, row.error, row.client].join() },
      h("th", { scope: "row" }, row.api), h("td", {}, row.error),
      h("td", {}, row.client), h("td", { class: "number" }, count(row.times)), h("td", {}, time(row.at)), h("td", { class: "number" }, row.node),
      h("td", {}, row.name === null ? row.what : h("a", { href: subject(row.about, row.name) }, row.what || row.name)))),
    "No request was refused."))];
}

// ------------------------------------------------------------------------------------------------ events

export function events() {
  const find = here().query.get("find") ?? "";
  const lines = store.feed.filter(({ text }) => text.toLowerCase().includes(find.toLowerCase()));
  return [section("Events",
    h("input", {
      type: "search", class: "find", value: find, placeholder: "Filter events  ( / )", "aria-label": "Filter events",
      oninput: (event) => change({ find: event.target.value }),
    }),
    lines.length ? feed(lines) : h("p", { class: "quiet" }, "No event is recorded yet."))];
}

export function feed(lines) {
  return h("ol", { class: "feed" }, lines.map((line) => h("li", { key: `e${line.n}`, class: `l${line.level}` },
    time(line.at), h("span", { class: "node" }, `node ${line.node}`),
    h("a", { href: subject(line.about, line.name) }, line.text),
    line.more > 0 && h("span", { class: "more" }, ` and ${count(line.more)} more`))));
}

export const views = {
  cluster, topics, topic, partition, broker, controller, groups, group, transactions, transaction, producer, client,
  refused, events,
};
