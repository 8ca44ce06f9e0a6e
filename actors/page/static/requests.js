// The slowest requests of clients, and the critical path of one.

import { ask } from "./api.js";
import { h, time } from "./dom.js";
import { drawing, span } from "./lanes.js";
import { delivery } from "./delivery.js";
import { chosen, linked, loading, overview } from "./recorded.js";
import { address, change, here } from "./router.js";
import { facts, table } from "./views.js";

export function slow() {
  const { query } = here();
  const [api, about] = [query.get("api") ?? "", query.get("about") ?? ""];
  const answer = ask("slow", { api, about });
  const { value } = answer;
  if (!value) return [loading(answer)];
  const longest = value.requests[0]?.ms ?? 1;
  const apis = [...new Set(value.requests.map((each) => each.api))].sort();
  return [h("section", {},
    h("div", { class: "bar" }, h("h2", {}, "Slowest requests of clients"),
      h("select", { "aria-label": "API", onchange: (event) => change({ api: event.target.value }) },
        ["", ...new Set([api, ...apis].filter(Boolean))].map((name) => h("option", { value: name, selected: name === api }, name || "all APIs"))),
      about && h("button", { onclick: () => change({ about: null }) }, `${about} ×`),
      value.read < 1 && h("span", { class: "state s1" }, `${Math.floor(value.read * 100)} % of the trace is read`)),
    table("Slowest requests", ["#Took", "", "Request", "Client", "Subject", "Node", "Time"],
      value.requests.map((each) => h("tr", { key: `${each.run}${each.seq}${each.correlation_id}` },
        h("th", { scope: "row", class: "number took" }, h("a", { href: pathOf(each) }, span(each.ms / 1000))),
        h("td", {}, bar(each.ms / longest)),
        h("td", {}, each.api), h("td", {}, each.client_id || "–"),
        h("td", {}, /-\d+$/.test(each.subject) ? h("a", { href: address(["partition", each.subject], { at: each.at + each.ms / 1000, d: null }) }, each.subject) : each.subject),
        h("td", {}, each.node), h("td", {}, h("a", { href: linked(each) }, time(each.at))))),
      "The trace has no answered request of a client."))];
}

export const pathOf = (each) => address(["path", `${each.run}~${each.seq}~${each.connection}~${each.correlation_id}`], { at: each.at, d: null });

const bar = (part, start = 0, kind = "leads") => h("svg", { class: "bar-chart", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
  h("rect", { class: kind, x: start * 100, y: 0, width: Math.max(part * 100, 0.6), height: 8 }));

export function path(name) {
  const [run, seq, connection, correlation] = name.split("~");
  const answer = ask("path", { run, seq, connection, correlation });
  const { value } = answer;
  if (!value) return [loading(answer, "Looking for the critical path …")];
  const { edges, gap, ms, lanes, deliveries } = value;
  const worst = edges[gap];
  const begin = edges[0].start;
  const runs = overview.runs;
  const linkedPath = deliveries.map((each, index) => (index ? { ...each, cause: [deliveries[index - 1].run, deliveries[index - 1].seq] } : { ...each, cause: null }));
  const strong = new Set(deliveries.map((each) => `${each.run}~${each.seq}`));
  const stages = [...new Set(edges.map((edge) => edge.stage))].map((stage) => [stage, edges.filter((edge) => edge.stage === stage).reduce((sum, edge) => sum + edge.ms, 0)]);
  const request = deliveries[0].title.replace(/^ClientRequests? /, "");
  const selected = chosen();
  return [
    h("h1", {}, `${request} took ${span(ms / 1000)}`),
    h("p", { class: "verdict" }, `${span(worst.ms / 1000)} of it (${Math.round((worst.ms / ms) * 100)} %): ${value.reason || worst.words}.`),
    facts(stages.map(([stage, took]) => [stage, span(took / 1000)])),
    h("section", { class: "messages", "aria-label": "Critical path" }, h("h2", {}, "Critical path"),
      drawing({ deliveries: linkedPath, lanes, runs, strong, selected, step: 44, gap: { from: gap, to: gap + 1, text: value.reason } })),
    h("section", { class: "edges" }, h("h2", {}, "Edges"),
      table("Edges", ["#Took", "When", "Stage", "From the cause to", "#In the queue"], edges.map((edge, index) => h("tr", { class: index === gap ? "worst" : null },
        h("th", { scope: "row", class: "number" }, span(edge.ms / 1000)),
        h("td", {}, bar((edge.end - edge.start) * 1000 / ms, ((edge.start - begin) * 1000) / ms, index === gap ? "out" : "leads")),
        h("td", {}, edge.stage), h("td", {}, h("a", { href: linked({ at: edge.end, run: edge.run, seq: edge.effect[1] }) }, edge.words)),
        h("td", { class: "number" }, edge.queue_ms > 0.001 ? span(edge.queue_ms / 1000) : "–"))))),
    selected && delivery(selected),
  ];
}
