// Calls to the server. Decisions go one after another, so that their order is that of the keys.
import { $ } from "./dom.js";

let tail = Promise.resolve();
let waiting = 0;
export const shared = { seq: 0 };

export const newId = () => Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function answer(response) {
  const found = await response.json().catch(() => ({ error: `the server answered ${response.status}` }));
  if (!response.ok) throw new Refused(response.status, found.error || `the server answered ${response.status}`);
  if (found.seq !== undefined) shared.seq = found.seq;
  return found;
}

const reached = (request) => request.catch(() => {
  throw new Error("The server does not answer. If it has ended, type the command pars review again: all that was saved is kept.");
});

export async function get(path, parameters = {}) {
  const query = new URLSearchParams(parameters).toString();
  return answer(await reached(fetch(query ? `${path}?${query}` : path, { cache: "no-store" })));
}

async function send(path, body) {
  const id = newId();
  const request = () => fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-Pars": "1" },
    body: JSON.stringify({ id, ...body, base_seq: body.base_seq ?? shared.seq }),
  });
  let response;
  try {
    response = await request();
  } catch {
    response = await reached(request()); // the same id: a decision that did arrive counts once
  }
  return answer(response);
}

export function post(path, body = {}) {
  waiting += 1;
  $("saved").textContent = "saving…";
  const work = tail.then(() => send(path, body));
  tail = work.catch(() => undefined);
  return work.then(
    (found) => { waiting -= 1; if (!waiting) $("saved").textContent = "all saved"; return found; },
    (error) => { waiting -= 1; $("saved").textContent = "NOT SAVED"; throw error; },
  );
}

export const settled = () => tail;
window.addEventListener("beforeunload", (event) => { if (waiting) event.preventDefault(); });
