// Sign-in, connection and buttons. The token is sent in a header, never in an address, so events are read with fetch:
// EventSource cannot send headers.

import { showAllOrders, showState } from "/static/panels.js";
import { $, seconds } from "/static/words.js";

const KEPT = "riskroute-token";
const FIRST_WAIT = 500, LONGEST_WAIT = 3000, SILENCE = 25000;

let token = sessionStorage.getItem(KEPT) ?? "";
let viewer = null;
let state = null;
let heard = 0; // time of the last data from the service
let changed = 0; // time of the last state
let connected = false;
let line = null;
let wait = FIRST_WAIT;
let timer = 0;

const headers = (mine) => ({ Authorization: `Bearer ${mine}` });

async function follow() {
  clearTimeout(timer);
  const mine = (line = new AbortController());
  try {
    const answer = await fetch("/events", { headers: headers(token), signal: mine.signal, cache: "no-store" });
    if (answer.status === 401 || answer.status === 403) {
      leave("This token is not valid.");
      return;
    }
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    sessionStorage.setItem(KEPT, token);
    wait = FIRST_WAIT;
    heard = performance.now();
    await read(answer.body, mine);
  } catch {
    // reconnecting below does not depend on the cause
  }
  if (mine !== line) return;
  connected = false;
  tell();
  timer = setTimeout(follow, wait);
  wait = Math.min(2 * wait, LONGEST_WAIT);
}

async function read(body, mine) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done || mine !== line) return;
    heard = performance.now();
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) take(part);
  }
}

function take(text) {
  let kind = "message", data = "";
  for (const row of text.split("\n")) {
    if (row.startsWith("event: ")) kind = row.slice(7);
    else if (row.startsWith("data: ")) data += row.slice(6);
  }
  if (!data) return;
  if (kind === "viewer") viewer = JSON.parse(data);
  if (kind === "state") {
    state = JSON.parse(data);
    changed = performance.now();
    connected = true;
    showState(state);
  }
  tell();
}

function tell() {
  const inside = state != null;
  $("login").hidden = token !== "";
  $("main").hidden = $("status").hidden = !inside;
  $("leave").hidden = token === "";
  $("halt").hidden = !inside || Boolean(state.halted);
  $("resume").hidden = !inside || !state.halted;
  $("main").classList.toggle("old", inside && !connected);
  $("line").dataset.state = connected ? "on" : "off";
  const ago = seconds((performance.now() - changed) / 1000);
  let text = "Not connected";
  if (connected) text = "Live";
  else if (inside) text = "Disconnected, trying again";
  else if (token) text = "Connecting";
  if ($("line").firstChild?.data !== text) $("line").replaceChildren(document.createTextNode(text), age);
  age.textContent = inside ? (connected ? ` · last change ${ago} ago` : ` · data ${ago} old`) : "";
}

// Screen readers announce changes of status, not every second of this clock.
const age = document.createElement("span");
age.setAttribute("aria-live", "off");

function leave(why = "") {
  token = "";
  line?.abort();
  line = state = viewer = null;
  connected = false;
  clearTimeout(timer);
  sessionStorage.removeItem(KEPT);
  $("alerts").replaceChildren();
  $("login-error").textContent = why;
  tell();
  $("token").focus();
}

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value.trim();
  $("token").value = $("login-error").textContent = "";
  tell();
  follow();
});
$("leave").addEventListener("click", () => leave());

$("more").addEventListener("click", () => {
  const all = $("more").getAttribute("aria-pressed") !== "true";
  $("more").setAttribute("aria-pressed", String(all));
  $("more").textContent = all ? "Show fewer orders" : "Show more orders";
  showAllOrders(state.orders_now, all);
});

// Halt and resume open a dialog, which Enter confirms and Escape cancels.

let asked = null;

function ask(what) {
  asked = what;
  $("ask-title").textContent = what.title;
  $("ask-text").textContent = what.text;
  $("ask-yes").textContent = what.yes;
  $("ask-yes").className = what.danger ? "danger" : "";
  $("ask-scope").textContent = what.scope;
  $("ask-reason-row").hidden = !what.reason;
  $("ask-token-row").hidden = viewer?.scopes.includes(what.scope) ?? false;
  $("ask-reason").value = $("ask-token").value = $("ask-error").textContent = "";
  $("ask").showModal();
  (what.reason ? $("ask-reason") : $("ask-token-row").hidden ? $("ask-yes") : $("ask-token")).focus();
}

$("halt").addEventListener("click", () => ask({
  path: "/halt", scope: "halt", reason: true, danger: true, title: "Halt trading?", yes: "Halt trading",
  text: "No new children are sent, and open ones are cancelled. Fills are still booked. Resuming needs the scope trade.",
}));
$("resume").addEventListener("click", () => ask({
  path: "/resume", scope: "trade", reason: false, danger: false, title: "Resume trading?", yes: "Resume trading",
  text: `Trading was halted by ${state.halted_by}: ${state.halted}`,
}));
$("ask-cancel").addEventListener("click", () => $("ask").close());

$("ask-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const mine = $("ask-token-row").hidden ? token : $("ask-token").value.trim();
  if (!mine) {
    $("ask-error").textContent = `Enter a token with the scope ${asked.scope}.`;
    $("ask-token").focus();
    return;
  }
  $("ask-yes").disabled = true;
  $("ask-error").textContent = "";
  try {
    const body = asked.reason ? JSON.stringify({ reason: $("ask-reason").value || "halted from the dashboard" }) : undefined;
    const answer = await fetch(asked.path, { method: "POST", headers: { ...headers(mine), "Content-Type": "application/json" }, body });
    if (answer.ok) $("ask").close();
    else $("ask-error").textContent = (await answer.json()).error ?? `The service answered ${answer.status}.`;
  } catch {
    $("ask-error").textContent = "The service cannot be reached, so the outcome is unknown: try again, or use the halt file.";
  } finally {
    $("ask-yes").disabled = false;
    $("ask-token").value = "";
  }
});

setInterval(() => {
  if (connected && performance.now() - heard > SILENCE) line?.abort();
  tell();
}, 250);

tell();
if (token) follow();
