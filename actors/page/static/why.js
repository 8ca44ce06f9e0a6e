// Explanations: those of `kafka-actors why`, loaded when the reader asks for them.

import { ask, askAgain } from "./api.js";
import { h, time } from "./dom.js";
import { address, change, here } from "./router.js";

export const LINKED = {
  partition: "partition", topic: "topic", broker: "broker", controller: "controller", "consumer-group": "group",
  transaction: "transaction", producer: "producer", client: "client", cluster: "cluster",
};

// The address of the view of a subject, as facts name it.
export function subject(about, name) {
  const view = LINKED[about] ?? "cluster";
  return address(name === null || name === undefined ? [view] : [view, name]);
}

// The button "Why?", and the explanation if the address has `why`. `linked(line)` may return the address of a line.
export function why(about, name, { linked }) {
  const { query } = here();
  const at = query.get("at");
  const wanted = query.has("why");
  const found = wanted ? ask("why", { about, name, at }) : null;
  const open = () => {
    askAgain("why", { about, name, at });
    change({ why: "1" });
  };
  return h("section", { class: "why", "aria-labelledby": "why-title", key: `why-${about}-${name}-${at}` },
    h("div", { class: "bar" },
      h("h2", { id: "why-title" }, "Why"),
      wanted
        ? [h("button", { onclick: open }, "Ask again"), h("button", { onclick: () => change({ why: null }) }, "Close")]
        : h("button", { class: "primary", onclick: open }, "Why is it so?")),
    wanted && (found?.value ? explanation(found.value, linked)
      : h("p", { class: found?.error ? "error" : "quiet" }, found?.error ?? "Reading the trace …")));
}

function explanation({ verdict, chain, answers }, linked) {
  return h("div", { class: "explanation" },
    h("p", { class: "verdict" }, verdict),
    chain.length > 0 && h("ol", { class: "chain", "aria-label": "Chain of causes" },
      chain.map((line, number) => h("li", {}, number > 0 && h("span", { class: "because" }, "because "), said(line, linked)))),
    answers.map(({ question, lines }) => h("details", { key: question },
      h("summary", {}, question),
      h("ul", {}, lines.map((line) => h("li", {}, said(line, linked)))))));
}

function said(line, linked) {
  if (line.at === undefined) return line.text;
  const target = linked(line);
  const place = [time(line.at), ` node ${line.node}`];
  return [line.text, " ", target ? h("a", { class: "place", href: target }, place) : h("span", { class: "place" }, place)];
}
