// The beginning: load what the page is about, the module of its mode (live.js, recorded.js), and render its views.

import { get, page } from "./api.js";
import { h, morph } from "./dom.js";
import { address, here } from "./router.js";
import { problems } from "./store.js";
import { TABS, views } from "./views.js";

const main = document.getElementById("main");
const top = document.getElementById("top");
const bottom = document.getElementById("bottom");

// What a mode may replace. `header()` is shown in the header, `footer()` below the view; `views` are further views;
// `panels(about, name)` is shown in the view of a subject; `linked(line)` is the address of a recorded delivery.
const source = {
  actions: [], buttons: () => null, act: () => {}, header: () => null, footer: () => null, panels: () => null,
  linked: () => null, views: {}, tabs: [], render,
};

page.render = render;
let due = false;

// Render the page soon. Several calls in a frame render once.
function render() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
  });
}

function draw() {
  const { path } = here();
  const [view = "cluster", name = ""] = path;
  const found = source.views[view] ?? views[view];
  const bad = problems();
  const tab = (to, text) => h("a", { href: address(to), "aria-current": (to[0] ?? "cluster") === view ? "page" : null }, text);
  morph(top, h("header", { id: "top" },
    h("a", { class: "brand", href: address([]) }, "kafka-actors"),
    h("span", { class: `health state s${bad.length ? 3 : 0}`, title: bad.join("; ") }, bad.length ? bad.join(" · ") : "healthy"),
    h("nav", { class: "tabs", "aria-label": "Views" }, [...TABS, ...source.tabs].map(([to, text]) => tab(to, text))),
    h("div", { class: "mode" }, source.header())));
  morph(main, h("main", { id: "main", tabindex: "-1", class: `view-${view}` }, found
    ? found(name, source) : [h("h1", {}, "Nothing is here"), h("p", {}, h("a", { href: "#/" }, "To the cluster"))]));
  morph(bottom, h("footer", { id: "bottom" }, source.footer()));
  document.title = `${name || (view === "cluster" ? source.about.title : view)} – kafka-actors`;
}

let shown = "";
function follow() {
  const now = here().path.join("/");
  draw();
  if (now !== shown) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  }
  shown = now;
}
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  const field = main.querySelector("input[type=search]");
  if (field) {
    event.preventDefault();
    field.focus();
  }
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

try {
  source.about = await get("/api/about");
  const { start } = await import(`./${source.about.mode}.js`);
  await start(source);
  shown = here().path.join("/");
  draw();
  addEventListener("hashchange", follow);
} catch (error) {
  main.replaceChildren(h("p", { class: "error" }, `The page cannot be shown: ${error.message}`));
}
