// A partition's offsets and a group's members over time.

import { ask } from "./api.js";
import { h, time } from "./dom.js";
import { span } from "./lanes.js";
import { linked, loading, moment, overview } from "./recorded.js";
import { pathOf } from "./requests.js";
import { lags } from "./views.js";

const WIDTH = 1000, HEIGHT = 180, BAND = 12;
const COLORS = 6;

function frame(height, content, label) {
  const { begin, end } = overview;
  const x = (at) => ((Math.min(Math.max(at, begin), end) - begin) / Math.max(end - begin, 1e-6)) * WIDTH;
  return h("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", height, role: "img", "aria-label": label },
    content(x), h("path", { class: "now", d: `M${x(moment()).toFixed(1)} 0V${height}`, "vector-effect": "non-scaling-stroke" }));
}

const key = (kind, text) => [h("i", { class: kind }), `${text} `];

export function offsets(name) {
  const answer = ask("offsets", { name });
  const { value } = answer;
  if (!value) return h("section", {}, h("h2", {}, "Offsets"), loading(answer));
  const points = value.nodes.flatMap((node) => [...node.end, ...node.high_watermark, ...node.fetched]);
  const least = Math.min(...points.map(([, offset]) => offset)), most = Math.max(...points.map(([, offset]) => offset), least + 1);
  const y = (offset) => HEIGHT - 6 - ((offset - least) / (most - least)) * (HEIGHT - 16);
  const steps = (list, x) => list.map(([at, offset], index) => `${index ? `H${x(at).toFixed(1)}V` : `M${x(at).toFixed(1)} `}${y(offset).toFixed(1)}`).join("") + (list.length ? `H${x(overview.end).toFixed(1)}` : "");
  const brokers = [...new Set(value.states.flatMap((state) => [state.leader, ...state.isr]).filter((id) => id >= 0))].sort((a, b) => a - b);
  const lines = value.nodes.map((node, index) => ({ ...node, color: `c${brokers.indexOf(node.node) >= 0 ? brokers.indexOf(node.node) % COLORS : index % COLORS}` }));
  const bands = HEIGHT + 8;
  const chart = frame(bands + brokers.length * BAND + 14, (x) => [
    h("path", { class: "frame", d: `M0 ${HEIGHT}H${WIDTH}`, "vector-effect": "non-scaling-stroke" }),
    lines.map((node) => [["end", node.end], ["high-watermark", node.high_watermark], ["fetched", node.fetched]].map(([kind, list]) =>
      list.length > 0 && h("path", { class: `offset ${kind} ${node.color}`, d: steps(list, x), "vector-effect": "non-scaling-stroke" }, h("title", {}, `node ${node.node}: ${kind.replace("-", " ")}`)))),
    brokers.map((broker, row) => value.states.map((state, index) => {
      const until = value.states[index + 1]?.at ?? overview.end;
      const kind = state.leader === broker ? "leader" : state.isr.includes(broker) ? "isr" : "out";
      return h("rect", { class: `band ${kind}`, x: x(state.at), y: bands + row * BAND, width: Math.max(x(until) - x(state.at), 0), height: BAND - 2 },
        h("title", {}, `broker ${broker}: ${kind === "out" ? "not in the ISR" : kind === "isr" ? "in the ISR" : "leader"}`));
    })),
    value.produces.map((each) => h("rect", { class: `produce ${each.ms > 100 ? "slow" : ""}`, x: x(each.at), y: bands + brokers.length * BAND + 2, width: Math.max(x(each.at + each.ms / 1000) - x(each.at), 1.2), height: 9 },
      h("title", {}, `a produce waited ${span(each.ms / 1000)}`))),
  ], `Offsets of ${name}`);
  return h("section", { class: "history" }, h("h2", {}, `Offsets ${least} to ${most}`), chart,
    h("p", { class: "legend" }, lines.map((node) => key(`line ${node.color}`, `node ${node.node}`)), key("line dash", "high watermark"), key("line dots", "follower's offset"),
      h("span", { class: "quiet" }, `below, brokers ${brokers.join(", ")}: `), key("leader", "leader"), key("isr", "in the ISR"), key("out", "not in the ISR"), key("produce", "produce waits")),
    value.produces.length > 0 && h("details", { key: "produces", open: true }, h("summary", {}, "Produce requests that waited longest"), h("ul", { class: "found" },
      value.produces.slice(0, 5).map((each) => h("li", {}, h("a", { href: pathOf(each) }, time(each.at), ` node ${each.node}: ${span(each.ms / 1000)}`))))),
    h("details", { key: "states" }, h("summary", {}, `${value.states.length} states`), h("ul", { class: "found" }, value.states.map((state) =>
      h("li", {}, h("a", { href: linked(state) }, time(state.at)), ` leader ${state.leader < 0 ? "none" : state.leader}, ISR ${state.isr.join(" ")}, epoch ${state.epoch}, by ${state.by.replace(/,.*/, "")}`)))));
}

export function members(name) {
  const answer = ask("members", { name });
  const { value } = answer;
  if (!value) return h("section", {}, h("h2", {}, "Members over time"), loading(answer));
  const rows = value.members;
  const height = rows.length * BAND + 18;
  const chart = frame(height, (x) => [
    value.states.map((state, index) => /Rebalance/.test(state.state) && h("rect", { class: "rebalance", x: x(state.at), y: 0, width: Math.max(x(value.states[index + 1]?.at ?? overview.end) - x(state.at), 1.5), height })),
    rows.map((row, index) => h("rect", { class: `band c${index % COLORS}`, x: x(row.from), y: index * BAND + 2, width: Math.max(x(row.to ?? overview.end) - x(row.from), 2), height: BAND - 3 },
      h("title", {}, `${row.client} (${row.member})${row.ended ? `, ${row.ended}` : ""}`))),
    rows.map((row, index) => row.joins.map(([at]) => h("path", { class: "joined", d: `M${x(at).toFixed(1)} ${index * BAND + 1}v${BAND - 1}`, "vector-effect": "non-scaling-stroke" }))),
  ], `Members of ${name}`);
  return h("section", { class: "history" }, h("h2", {}, "Members over time"), chart,
    h("p", { class: "legend" }, rows.map((row, index) => key(`c${index % COLORS}`, `${row.client || row.member}${row.ended ? ` (${row.ended})` : ""}`)), key("rebalance", "rebalance")),
    lags(ask("lags", { name, at: moment() }), linked),
    h("h2", {}, "Rebalances"),
    h("ul", { class: "found" }, value.states.filter((state) => state.why || /Preparing|Empty|Dead/.test(state.state)).map((state) =>
      h("li", {}, h("a", { href: linked(state) }, time(state.at)), ` ${state.state}${state.why ? `: ${state.why}` : ""}`))),
    value.hosted.length > 0 && h("p", { class: "quiet" }, "Coordinator: ", value.hosted.map((each) => [h("a", { href: linked(each) }, `node ${each.node} since `, time(each.at)), " "])));
}
