// The page of a running cluster: the picture, its changes as server-sent events, and buttons that inject faults.

import { ask, askAgain, get, post, say } from "./api.js";
import { h, time } from "./dom.js";
import { here } from "./router.js";
import { isPaused, load, patch, store } from "./store.js";
import { lags } from "./views.js";

const LAG_MS = 2000;

let source;
let state = "connecting";
let latest = "";
const chosen = {};

export async function start(given) {
  source = given;
  source.actions = source.about.actions ?? [];
  Object.assign(source, { act, buttons, header, panels });
  await refresh();
  setInterval(() => {
    const [view, name] = here().path;
    if (view === "group" && !document.hidden) askAgain("lags", { name });
  }, LAG_MS);
}

const panels = (about, name) => about === "consumer-group" && h("section", {}, lags(ask("lags", { name })));

async function refresh() {
  const picture = await get("/api/picture");
  load(picture);
  latest = picture.event;
  listen();
}

function listen() {
  const events = new EventSource(`/api/events?after=${encodeURIComponent(latest)}`);
  events.onopen = () => to("live");
  events.onerror = () => to(events.readyState === EventSource.CLOSED ? "closed" : "reconnecting");
  events.onmessage = ({ data }) => {
    patch(JSON.parse(data));
    source.render();
  };
  events.addEventListener("reset", async () => {
    events.close();
    try {
      await refresh();
    } catch {
      setTimeout(refresh, 2000);
    }
    source.render();
  });
}

function to(now) {
  state = now;
  source.render();
}

function header() {
  return [
    h("span", { class: "title", title: source.about.title }, source.about.title),
    h("span", { class: `state s${state === "live" ? 0 : 1}` }, state),
    time(store.at), h("span", { class: "quiet" }, "UTC"),
  ];
}

async function act(name, options) {
  say(`${name} …`);
  try {
    const { failed } = await post("/api/do", { do: name, with: options });
    say(failed ?? `${name}: done`);
  } catch (error) {
    say(error.message);
  }
}

// The buttons for a broker; in the table only the first ones, the others on the broker's own view.
function buttons(broker, few) {
  const running = broker.process === "running" || (broker.process === "unknown" && broker.live);
  return source.actions
    .filter((action) => action.running === running && !(few && action.more) && !(isPaused(broker) && action.label === "Pause"))
    .map((action) => {
      const others = store.brokers.map(({ id }) => id).filter((id) => id !== broker.id);
      const pick = `${action.label} ${broker.id}`;
      const options = () => ({
        ...action.with, [action.broker]: broker.id, ...(action.other ? { [action.other]: chosen[pick] ?? others[0] } : {}),
      });
      return [
        h("button", { key: pick, class: action.danger ? "danger" : null, onclick: () => act(action.do, options()) },
          action.label, h("span", { class: "hidden" }, ` broker ${broker.id}`)),
        action.other && others.length > 0 && h("select", {
          key: `${pick} of`, "aria-label": `${action.label}: the other broker`, onchange: (event) => (chosen[pick] = Number(event.target.value)),
        }, others.map((id) => h("option", { value: id }, String(id)))),
      ];
    });
}
