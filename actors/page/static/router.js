// Addresses: #/partition/orders-0?at=1700000000.5&why -> { path: ["partition", "orders-0"], query }.

// Parameters that stay in all links, such as the moment of a recorded run.
export const sticky = new Set(["at"]);

export function here() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}

// The address of a view: address(["topic", "t"], { find: "x" }). A parameter that is null is left out.
export function address(path, query = {}) {
  const kept = new URLSearchParams();
  for (const [name, value] of here().query) if (sticky.has(name)) kept.set(name, value);
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === "") kept.delete(name);
    else kept.set(name, value);
  }
  const text = kept.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// Change parameters of this view's address; with `push`, as a step of the browser's history.
export function change(query, push = false) {
  const { path, query: now } = here();
  const target = address(path, { ...Object.fromEntries(now), ...query });
  if (push) location.hash = target;
  else {
    history.replaceState(null, "", target);
    dispatchEvent(new HashChangeEvent("hashchange"));
  }
}
