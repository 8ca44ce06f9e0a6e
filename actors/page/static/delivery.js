// A delivery: its message, its causes and effects, and the state of the actor before and after.

import { ask, askAgain } from "./api.js";
import { count, h, time } from "./dom.js";
import { span } from "./lanes.js";
import { linked, loading } from "./recorded.js";
import { address } from "./router.js";
import { facts, table } from "./views.js";

const SHORT = 400;
const AGAIN_MS = 700;

export function delivery(place) {
  const answer = ask("delivery", place);
  const { value } = answer;
  if (!value) return h("section", { class: "delivery" }, loading(answer));
  const where = (each) => h("a", { href: linked(each) }, time(each.at), ` node ${each.node} `, `${each.title} to ${each.to.replace("outside:", "")}`);
  return h("div", { class: "delivery columns" },
    h("div", {},
      h("section", { "aria-label": "Delivery" },
        h("h1", {}, value.title, h("span", { class: "quiet" }, `delivery ${value.seq} of node ${value.node}`)),
        value.facts.map((fact) => h("p", { class: "fact-text" }, fact.text)),
        value.error && h("p", { class: "error" }, value.error),
        facts([
          ["Time", time(value.at)], ["From", value.sender || value.kind], ["To", value.receiver],
          ["In the queue", span(value.waited_ms / 1000)], ["Handler", span(value.took_ms / 1000)],
          ...(/^ClientRequest/.test(value.title) && value.payload?.connection !== undefined
            ? [["Request", h("a", { href: address(["path", `${value.run}~${value.seq}~${value.payload.connection}~${value.payload.correlation_id}`]) }, "its critical path")]] : []),
          ["Event", value.event ? h("a", { href: linked({ at: value.at, run: value.run, seq: value.event }) }, `began with delivery ${value.event}`) : "–"],
        ])),
      state(place),
      h("section", { "aria-label": "Payload" }, h("h2", {}, "Message"),
        value.payload === null ? h("p", { class: "quiet" }, value.payload_bytes > 4 ? `${count(value.payload_bytes)} bytes are not shown.` : "The trace has no contents of this message.")
          : tree(value.payload)),
      value.effects.length > 0 && h("section", { "aria-label": "I/O calls" }, h("h2", {}, "I/O calls"),
        h("ul", { class: "found" }, value.effects.map((call) => h("li", {}, h("code", {}, `${call.port}.${call.method}(${cut(JSON.stringify(call.args).slice(1, -1))})`),
          call.error ? h("span", { class: "error" }, ` ${call.error}`) : h("span", { class: "quiet" }, ` → ${cut(JSON.stringify(call.result))}`)))))),
    h("div", {},
      h("section", { "aria-label": "Causes" }, h("h2", {}, "Caused by"),
        value.causes.length ? h("ol", { class: "chain" }, value.causes.map((each) => h("li", {}, where(each))))
          : h("p", { class: "quiet" }, value.kind === "outside" ? "It came from outside: the trace shows no cause." : "The trace shows no cause.")),
      h("section", { "aria-label": "Effects" }, h("h2", {}, "Led to"),
        value.sent.length ? h("ul", { class: "found" }, value.sent.map((each) => h("li", {}, where(each), h("span", { class: "quiet" }, ` after ${span(each.at - value.at)}`))))
          : h("p", { class: "quiet" }, "No message near it was caused by it."))));
}

const cut = (text) => ((text ?? "").length > SHORT ? `${text.slice(0, SHORT)}…` : text ?? "");

function state(place) {
  const answer = ask("state", place);
  const { value } = answer;
  if (value?.stored !== undefined && !answer.again) answer.again = setTimeout(askAgain, AGAIN_MS, "state", place);
  const content = value && (value.stored !== undefined ? h("p", { class: "quiet" }, h("progress", { value: value.stored, max: place.seq }), ` The run is replayed up to delivery ${count(value.stored)} of ${count(place.seq)}.`) : value.problem ? h("p", { class: "error" }, value.problem) : value.outside ? h("p", { class: "quiet" }, "The receiver is outside the actor system: it has no recorded state.")
    : [
      h("div", { class: "differences" }, table("Differences", ["Part", "Before", "After"], value.differences.slice(0, 60).map((each) => h("tr", {},
        h("th", { scope: "row" }, each.path.replace(/^\./, "") || value.actor), h("td", { class: "was" }, cut(plain(each.before))), h("td", { class: "is" }, cut(plain(each.after))))),
      "The delivery changed nothing in the actor's state.")),
      value.differences.length > 60 && h("p", { class: "quiet" }, `${value.differences.length - 60} more differences`),
      h("details", { key: "whole" }, h("summary", {}, "The whole state after it"), value.after && tree(value.after)),
      value.before && h("details", { key: "whole-before" }, h("summary", {}, "The whole state before it"), tree(value.before)),
    ]);
  return h("section", { "aria-label": "State" }, h("h2", {}, "State of the actor, before and after"),
    content ?? loading(answer, "Replaying the run …"));
}

const plain = (value) => (typeof value === "string" ? value : JSON.stringify(value));

// A value of JSON as nested lists that open and close.
function tree(value, depth = 0) {
  if (value === null || typeof value !== "object") return h("span", { class: "value" }, cut(plain(value)));
  const text = JSON.stringify(value);
  if (text.length <= 72) return h("code", {}, text);
  const entries = Object.entries(value);
  return h("ul", { class: "tree" }, entries.slice(0, 200).map(([name, each]) => {
    const small = each === null || typeof each !== "object" || JSON.stringify(each).length <= 72;
    return h("li", {}, small ? [h("b", {}, `${name}: `), tree(each, depth + 1)]
      : h("details", { open: depth < 1 }, h("summary", {}, h("b", {}, name), h("span", { class: "quiet" }, ` ${Array.isArray(each) ? `${each.length} entries` : ""}`)), tree(each, depth + 1)));
  }), entries.length > 200 && h("li", { class: "quiet" }, `${entries.length - 200} more`));
}
