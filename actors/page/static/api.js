// Requests to the server of the page.

let token = "";

export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  let value;
  do { // a long search goes on with each request, so that others are answered meanwhile
    value = await answer(await fetch(given.length ? `${path}?${new URLSearchParams(given)}` : path));
  } while (value?.unfinished);
  return value;
}

export async function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-Token": token };
  return answer(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function answer(response) {
  const value = await response.json();
  if (!response.ok) throw new Error(value.error ?? response.statusText);
  if (value?.token) token = value.token;
  return value;
}

// What the server answered to a request: { value }, { error }, or {} while it is loaded; then the page is rendered again.
// A request with another `version` is sent again.
const answers = new Map();
const KEPT = 60;
const keyOf = (name, query, version) => JSON.stringify([name, query, version]);
export const page = { render: () => {} };

export function ask(name, query, version = 0) {
  const key = keyOf(name, query, version);
  if (!answers.has(key)) {
    if (answers.size >= KEPT) answers.delete(answers.keys().next().value);
    answers.set(key, {});
    get(`/api/${name}`, query).then((value) => answers.set(key, { value }), (error) => answers.set(key, { error: error.message }))
      .then(() => page.render());
  }
  return answers.get(key);
}

// Ask again; the old answer is shown until then.
export function askAgain(name, query) {
  const key = keyOf(name, query, 0);
  const old = answers.get(key);
  answers.delete(key);
  if (old) Object.assign(ask(name, query), old);
}

export const forget = () => answers.clear();

// Say something in the status line, which screen readers read out.
export function say(text) {
  document.getElementById("said").textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => say(""), 8000);
}
