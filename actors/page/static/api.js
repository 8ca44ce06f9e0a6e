// Requests to the server of the page.

let token = "";

export async function get(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const response = await fetch(given.length ? `${path}?${new URLSearchParams(given)}` : path);
  return answer(response);
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

// Say something in the status line, which screen readers read out.
export function say(text) {
  document.getElementById("said").textContent = text;
  clearTimeout(say.timer);
  say.timer = setTimeout(() => say(""), 8000);
}
