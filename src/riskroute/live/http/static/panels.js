// The panels; every new state of the service renders them again.

import { $, amount, brief, clock, draw, duration, make, number, percent, plural, quantity, seconds, show, size, table, within } from "/static/words.js";

const STATUS = { ready: "Ready", halted: "Halted", starting: "Starting", failed: "Failed" };
const NEAR = 0.8;

export function showState(state) {
  $("status").textContent = STATUS[state.status] ?? state.status;
  $("status").dataset.status = state.status;
  const policy = state.router.parameters.policy;
  const router = policy ? `${policy} policy` : state.router.name;
  $("about").textContent = `${state.mode === "shadow" ? "shadow mode, " : ""}${router}`;
  document.title = `${state.status === "ready" ? "" : `${(STATUS[state.status] ?? "").toUpperCase()} – `}riskroute live`;
  show($("alerts"), alerts(state));
  show($("counts"), counts(state));
  show($("cost"), cost(state));
  show($("limits"), limits(state));
  show($("places"), [connections(state), places(state)]);
  show($("beliefs"), beliefs(state));
  show($("orders"), orders(state.orders_now));
  show($("positions"), positions(state.positions));
  show($("service"), service(state));
  $("unknown-card").hidden = state.unknown_children.length === 0;
  show($("unknown"), unknown(state.unknown_children));
}

function alerts(state) {
  const found = [];
  const say = (bad, ...words) => found.push(make("p", { class: bad ? "bad" : "" }, ...words));
  if (state.failed) say(true, make("b", {}, "The engine has failed; restart the service: "), state.failed);
  if (state.halted) say(true, make("b", {}, `Trading is halted, by ${state.halted_by}: `), state.halted);
  if (state.status === "starting") say(false, "Starting: waiting for venues to report on children sent before the start.");
  for (const [name, one] of Object.entries(state.connections)) {
    if (one.down) say(false, make("b", {}, `${name} is down: `), one.down);
    if (one.differences.length) say(true, make("b", {}, `${name} has other orders than the log: `), one.differences.join("; "));
    if (one.moved) say(false, make("b", {}, `Balances at ${name} changed at ${clock(one.moved.at)}: `), `${one.moved.what} that no fill explains.`);
  }
  if (state.router.out) say(false, make("b", {}, "The safe router decides: "), state.router.out);
  const { refits } = state.service;
  if (refits?.lags) say(false, make("b", {}, "Learning lags: "), `a refit has been due for ${seconds(refits.overdue)}, and ${plural(state.router.waiting_to_learn, "settled order waits", "settled orders wait")}; belief ${number(state.router.belief)} decides.`);
  if (state.unknown) say(false, `${plural(state.unknown, "unknown child", "unknown children")}: no report since sending. The router is querying the venue.`);
  for (const one of state.limits) {
    if (one.most > 0 && one.used / one.most >= NEAR)
      say(one.halts, `${capital(one.what)}: ${percent(one.used / one.most)} of the limit is used${one.halts ? "; exceeding it halts trading" : ""}.`);
  }
  return found;
}

function counts(count) {
  const figure = (name, value, warn) => make("div", { class: warn && value ? "figure warn" : "figure" }, make("b", {}, number(value)), name);
  return [
    figure("orders", count.orders), figure("settled", count.settled), figure("unsettled", count.unsettled),
    figure("unknown children", count.unknown, true), figure("awaiting fills", count.waiting, true),
    figure("declined", count.declined, true), figure("corrections", count.corrections, true),
  ];
}

function cost(state) {
  const { totals, currency } = state;
  const money = (value) => amount(value, currency);
  const shadow = state.mode === "shadow";
  const saved = totals.saving_bps;
  const sure = saved.low == null ? "" : saved.low > 0 ? "good" : saved.high < 0 ? "bad-text" : "";
  const pair = (name, value, more, style = "") => [make("dt", {}, name), make("dd", {}, make("b", { class: style }, value), more)];
  const points = ({ mean }) => (mean == null ? "–" : `${number(mean, 2)} bp`);
  const explored = totals.explored_orders
    ? [money(totals.explored), `in ${plural(totals.explored_orders, "sampled order")}, one in ten, against the greedy plan`]
    : ["–", "no order sampled yet, or the router does not explore"];
  return [
    make("dl", { class: "pairs" },
      ...pair("Against the arrival mid, fees included", points(totals.cost_bps), `${within(totals.cost_bps)}${totals.cost_bps.low == null ? "" : "; "}${money(totals.cost)} on ${money(totals.notional)}, ${plural(totals.cost_bps.orders, "settled order")}`),
      ...pair(`${shadow ? "Would have saved" : "Saved"} against ${state.against} (estimate)`, points(saved), `${within(saved)}${saved.low == null ? "" : "; "}${money(totals.saving)}`, sure),
      ...pair("Spent on exploration (estimate)", ...explored),
      ...pair("Abandoned or late", number(totals.marked), `orders with a remainder valued at the far touch; ${number(totals.late)} finished after their deadline`)),
    costChart(state),
  ];
}

function costChart(state) {
  const done = state.orders_now.filter((one) => one.status === "settled" && one.cost_bps != null).sort((a, b) => a.at - b.at);
  if (done.length < 2) return make("p", { class: "soft" }, "The chart starts with the second settled order.");
  const [width, height, left, top, bottom] = [420, 120, 36, 10, 8];
  const { mean, low, high } = state.totals.cost_bps;
  const values = [0, ...done.map((one) => one.cost_bps), ...[mean, low, high].filter((one) => one != null)];
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const y = (value) => top + (height - top - bottom) * (1 - (value - least) / (most - least || 1));
  const x = (k) => left + ((width - left - 8) * (k + 0.5)) / done.length;
  const across = (value, style) => draw("line", { x1: left, x2: width, y1: y(value), y2: y(value), class: style });
  const label = (value, where) => {
    const text = draw("text", { x: left - 5, y: where + 4, "text-anchor": "end" });
    text.textContent = number(value, 1);
    return text;
  };
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Cost of the newest ${done.length} settled orders, between ${number(least, 1)} and ${number(most, 1)} basis points` });
  if (low != null) picture.append(draw("rect", { x: left, width: width - left, y: y(high), height: Math.max(y(low) - y(high), 1), class: "band" }));
  picture.append(draw("line", { x1: left, x2: left, y1: top, y2: height - bottom, class: "axis" }), across(0, "zero"));
  if (mean != null) picture.append(across(mean, "mean"));
  done.forEach((one, k) => picture.append(draw("circle", { cx: x(k), cy: y(one.cost_bps), r: 3, class: "dot" })));
  picture.append(label(most, y(most)), label(least, y(least)));
  return make("figure", {}, picture, make("figcaption", {}, `Cost in bp of the newest ${done.length} settled orders. Line: mean of all orders; band: its 95 % interval.`));
}

const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);
const UNLIMITED = 1e15;

function limits(state) {
  const shown = state.limits.map((one) => {
    const share = one.most ? Math.max(one.used / one.most, 0) : 0;
    const short = (value) => (Number.isInteger(value) || Math.abs(value) >= 1000 ? brief(value) : quantity(value));
    const say = (value) => amount(value, one.unit, short);
    const none = one.most > UNLIMITED;
    const bar = make("progress", { max: 1, value: Math.min(share, 1), class: share >= 1 ? "full" : share >= NEAR ? "near" : "", "aria-label": `${one.what}, ${percent(share)} used` });
    return make("div", { class: "limit" },
      make("div", { class: "row" }, make("span", {}, capital(one.what), one.halts ? make("span", { class: "soft" }, " halts") : null),
        make("span", {}, none ? `${say(one.used)}, no limit` : `${say(one.used)} of ${say(one.most)}`)),
      none ? null : bar);
  });
  const { quantity: most, notional, collar_bps, quote_seconds } = state.order_limits;
  return [...shown, make("p", { class: "soft" }, `A single order: at most a quantity of ${brief(most)} and ${amount(notional, state.currency, brief)}, within ${number(collar_bps)} bp of the mid, on quotes of the last ${number(quote_seconds, 1)} s.`)];
}

function connections({ connections: known }) {
  const names = Object.keys(known);
  if (!names.length) return null;
  const rows = names.map((name) => {
    const { down, session, book, gaps, budget, answers, foreign, reconciled, differences } = known[name];
    return [
      name, down ? make("b", { class: "bad-text" }, "down") : "up", book == null ? "none" : `${clock(book)}${gaps ? `; ${plural(gaps, "gap")}` : ""}`,
      budget ? `${number(budget.left)} of ${number(budget.most)}${session === name ? "" : ` (${session})`}` : "no limit",
      answers.count ? `${duration(answers.mean)}; 99\u00a0% ${answers.within == null ? "not within 1 s" : `within ${duration(answers.within)}`}` : "–",
      reconciled == null ? "not yet" : `${clock(reconciled)}; ${differences.length ? plural(differences.length, "difference") : "agrees"}${foreign ? `; ${plural(foreign, "foreign order")}` : ""}`,
    ];
  });
  return table("Connections.", [
    { name: "Place", left: true, wrap: true }, { name: "State", left: true }, { name: "Newest book", left: true }, { name: "May send", left: true },
    { name: "First report after", left: true }, { name: "Reconciled", left: true, wrap: true },
  ], rows);
}

function places({ totals, currency, venues: known, pools }) {
  const names = [...new Set([...Object.keys(known), ...Object.keys(totals.places)])];
  if (!names.length) return make("p", { class: "soft" }, "No children sent yet.");
  const total = names.reduce((sum, name) => sum + (known[name] ? (totals.places[name]?.filled ?? 0) : 0), 0);
  const rows = names.map((name) => {
    const done = totals.places[name] ?? { children: 0, sent: 0, filled: 0, cost: 0, fees: 0 };
    const beyond = !known[name];
    const rate = done.sent ? done.filled / done.sent : null;
    return [
      beyond ? (name === "beyond" ? "abandoned" : name) : name, beyond ? "" : pools.includes(name) ? "dark pool" : "venue",
      number(done.children), brief(done.sent), beyond ? "" : brief(done.filled), beyond ? "" : percent(total ? done.filled / total : null),
      beyond ? "" : percent(rate), beyond ? "" : make("progress", { max: 1, value: rate ?? 0, "aria-label": `${name}: filled ${percent(rate)} of the value sent` }),
      number(done.cost, 2), number(done.fees, 2), beyond ? "" : number(known[name].open), beyond ? "" : number(known[name].rejects),
    ];
  });
  return table(`Children of settled orders, in ${currency}: value sent and filled at arrival mids, cost against them with fees; negative costs are savings.`, [
    { name: "Place", left: true, wrap: true }, { name: "Kind", left: true }, { name: "Children" }, { name: "Sent" }, { name: "Filled" },
    { name: "Of all fills" }, { name: "Fill rate" }, { name: "", picture: true }, { name: "Cost" }, { name: "Fees" }, { name: "Open now" }, { name: "Rejects today" },
  ], rows);
}

const UNITS = { bp: (value) => `${number(value, 2)} bp`, probability: (value) => percent(value), "$/share": (value) => number(value, 4) };

function beliefs(state) {
  const { router } = state;
  const waiting = router.waiting_to_learn ? `; ${plural(router.waiting_to_learn, "settled order")} not learned yet` : "";
  const about = make("p", { class: "soft" }, `Belief ${number(router.belief)}${waiting}.`);
  return [about, ownBeliefs(router.believes), chances(state.beliefs)];
}

function ownBeliefs(list) {
  if (!list.length) return make("p", { class: "gap" }, "The router has no beliefs about single venues, or has not learned yet.");
  const reach = (one) => 1.96 * (one.deviation ?? 0);
  const span = new Map([["probability", [0, 1]]]);
  for (const one of list) {
    const [least, most] = span.get(one.unit) ?? [0, 0];
    if (one.unit !== "probability") span.set(one.unit, [Math.min(least, one.mean - reach(one)), Math.max(most, one.mean + reach(one))]);
  }
  const rows = list.map((one) => {
    const say = UNITS[one.unit] ?? ((value) => `${number(value, 4)} ${one.unit}`);
    return [
      one.place, one.symbol || "all", one.what, say(one.mean), one.deviation == null ? "unknown" : `± ${say(reach(one))}`,
      one.seen == null ? "–" : number(one.seen), beliefPicture(one.mean, reach(one), span.get(one.unit)),
    ];
  });
  return make("div", { class: "gap" }, table("The router's own beliefs.", [
    { name: "Place", left: true, wrap: true }, { name: "Symbol", left: true }, { name: "Quantity", left: true, wrap: true }, { name: "Expected" },
    { name: "95 % interval" }, { name: "Outcomes" }, { name: "", picture: true },
  ], rows));
}

const HOW = { dark: "dark", dark_rest: "resting dark", limit: "posted", take: "taken", sweep: "swept" };

function chances(list) {
  if (!list.length) return null;
  const sizes = list[0].sizes.map((one) => one.size);
  const cell = (one) => `${percent(one.chance)} (${percent(one.low)} to ${percent(one.high)})`;
  const rows = list.map((one) => [one.place, HOW[one.kind] ?? one.kind, one.symbol || "all", one.counted, number(one.trials), ...one.sizes.map(cell)]);
  return make("div", { class: "gap" }, table("Probability of a complete fill by size of the child, from all fills so far, with 90 % interval.", [
    { name: "Place", left: true, wrap: true }, { name: "How", left: true }, { name: "Symbol", left: true }, { name: "Counted in" }, { name: "Trials" }, ...sizes.map((size) => ({ name: number(size) })),
  ], rows));
}

function beliefPicture(mean, reach, [least, most]) {
  const x = (value) => 4 + (192 * (Math.min(Math.max(value, least), most) - least)) / (most - least || 1);
  return draw("svg", { viewBox: "0 0 200 16", "aria-hidden": "true" },
    draw("line", { x1: 4, x2: 196, y1: 8, y2: 8, class: "axis" }), draw("line", { x1: x(0), x2: x(0), y1: 1, y2: 15, class: "zero" }),
    draw("line", { x1: x(mean - reach), x2: x(mean + reach), y1: 8, y2: 8, class: "reach" }), draw("circle", { cx: x(mean), cy: 8, r: 4, class: "point" }));
}

const FEW = 12;
let all = false;

export function showAllOrders(list, wanted) {
  all = wanted;
  show($("orders"), orders(list));
}

function orders(list) {
  if (!list.length) return make("p", { class: "soft" }, "No orders yet.");
  const rows = (all ? list : list.slice(0, FEW)).map((one) => {
    const split = one.children.map((child) => `${child.place} ${quantity(child.filled)}/${quantity(child.quantity)} ${HOW[child.kind] ?? child.kind}${child.status === "unknown" ? " (unknown)" : child.reason === "rejected" ? " (rejected)" : ""}`);
    const flags = [one.safe && "safe router", one.marked && "remainder abandoned", one.busted && "busted", one.corrections && "corrected"].filter(Boolean);
    return [
      one.key, clock(one.at), one.symbol, one.side, `${quantity(one.quantity)} ${one.unit}`, quantity(one.filled),
      one.status + (flags.length ? `, ${flags.join(", ")}` : ""), split.join(" · "), one.cost_bps == null ? "–" : `${number(one.cost_bps, 2)} bp`,
    ];
  });
  return table("Unsettled orders first, then the newest. The split shows filled/sent quantities.", [
    { name: "Key", left: true, wrap: true }, { name: "At" }, { name: "Symbol", left: true }, { name: "Side", left: true }, { name: "Quantity" }, { name: "Filled" },
    { name: "Status", left: true, wrap: true }, { name: "Split", left: true, wrap: true }, { name: "Cost" },
  ], rows);
}

function positions(held) {
  const names = Object.keys(held);
  if (!names.length) return make("p", { class: "soft" }, "None.");
  return table("", [{ name: "Symbol", left: true }, { name: "Quantity" }, { name: "Cash" }, { name: "Fees paid" }],
    names.map((name) => [name, `${quantity(held[name].quantity)} ${held[name].unit}`, amount(held[name].cash, held[name].currency), amount(held[name].fees, held[name].currency)]));
}

function service({ now, service: { queue, clients, decisions, commits, snapshots, unsaved, refits }, router }) {
  const figure = (name, value, more, bad = false) => make("div", {}, make("dt", {}, name), make("dd", { class: bad ? "bad-text" : "" }, make("b", {}, value), more));
  const speed = (name, times, more = "") => figure(name, duration(times.mean), times.count ? `mean of ${number(times.count)}; 99\u00a0% ${times.within == null ? "not within 1 s" : `within ${duration(Math.min(times.within, times.longest ?? times.within))}`}${more}` : "none yet");
  const failed = (count) => (count ? `; ${number(count)} failed` : "");
  return make("dl", { class: "pairs across" },
    speed("Decision", decisions),
    commits ? speed("Commit of the log", commits, `, longest ${duration(commits.longest)}`) : null,
    figure("Queue of the engine", number(queue), "calls and reports"),
    clients.connections == null ? null : figure("Open connections", number(clients.connections), plural(clients.event_streams, "event stream", "event streams")),
    snapshots ? figure("Last snapshot", snapshots.saved ? duration(snapshots.seconds) : "–", `${snapshots.saved ? `${size(snapshots.bytes)}; ` : ""}${number(snapshots.saved)} saved${failed(snapshots.failed)}`, snapshots.failed > 0) : null,
    figure("Settled orders in memory", number(unsaved.orders), `${size(unsaved.bytes)} until the next snapshot`),
    refits ? figure("Last belief", clock(now - 1e9 * refits.age), `${seconds(refits.age)} before the last change; ${plural(router.waiting_to_learn, "settled order waits", "settled orders wait")}, refit after ${number(refits.every)}${failed(refits.failed)}`, refits.lags) : null);
}

function unknown(list) {
  if (!list.length) return [];
  return table("No report since sending. The router queries the venue until it answers, and resends nothing.",
    [{ name: "Child", left: true, wrap: true }, { name: "Place", left: true, wrap: true }, { name: "Order", left: true, wrap: true }], list.map((one) => [one.id, one.place, one.parent]));
}
