// The dashboard: what a frame says is kept by section, and drawn where it changed.

import { describeChart, drawChart, forgetChart } from "./chart.js";
import { at, clock, grouped, write } from "./dom.js";
import { Link } from "./link.js";
import { drawEngine, drawProfit, drawStrategies, drawStrategy, drawView, drawViews, openStrategy, openView } from "./lists.js";
import { drawBook, drawPhase, drawSymbols, drawTape } from "./market.js";

const TOKEN = "deltabook-dashboard-token";
const EMPTY = { book: "No orders: the book is empty.", chart: "No price yet.", tape: "No trades in the last minutes." };
const NEEDED = { book: "book_depth", chart: "best_quote", tape: "tape" };
const DESCRIBED_MS = 5000;

let all = {}; // section of everybody → what it says
let have = 0;
let symbol = wished();
let symbolHave = 0;
let view = "";
let viewHave = 0;
let strategy = "";
let strategyHave = 0;
let trading = {}; // orders and fills of the strategy that is open
let seen = {}; // panel → whether it has something to show of the symbol
let lostSince = 0;
let describedMs = 0;

function wished() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // an address that somebody typed
  }
}

function choose(name) {
  if (name === symbol && symbolHave) return;
  symbol = name;
  symbolHave = 0;
  seen = {};
  forgetChart();
  history.replaceState(null, "", name ? `#${encodeURIComponent(name)}` : " ");
  write(at("symbol"), name || "Book");
}

// -- frames ---------------------------------------------------------------------------------------------------

const link = new Link({
  begin() {
    have = symbolHave = viewHave = strategyHave = 0;
  },
  ask() {
    return { have, symbol, symbol_have: symbolHave, view, view_have: viewHave, strategy, strategy_have: strategyHave };
  },
  draw(frame) {
    have = frame.number;
    Object.assign(all, frame);
    drawAll(frame);
    if (frame.symbol?.name === symbol) {
      drawSymbol(frame.symbol, frame.now_ms / 1000);
      symbolHave = frame.number;
    }
    if (frame.view?.name === view && view) {
      if ("about" in frame.view) drawView(frame.view.about);
      viewHave = frame.number;
    }
    if (frame.strategy?.name === strategy && strategy) {
      Object.assign(trading, frame.strategy);
      strategyHave = frame.number;
    }
    if (strategy && (frame.strategies || frame.strategy?.orders || frame.strategy?.fills)) drawOpenStrategy();
    drawWords();
    const rate = link.rate();
    write(at("rate"), rate ? `${rate.frames.toFixed(0)} frames/s, ${(rate.bytes / 1000).toFixed(1)} KB/s` : "");
  },
  state(name, words) {
    if (name === "lost" && document.body.dataset.state !== "lost") lostSince = lostSince || Date.now();
    if (name === "live") lostSince = 0;
    document.body.dataset.state = name === "lost" && !have && !all.number ? "connecting" : name;
    write(at("connection-words"), { live: "Live", lost: all.number ? "Lost" : "Connecting", token: "Token wanted" }[name] ?? name);
    if (name !== "live") write(at("rate"), "");
    at("token-form").hidden = name !== "token";
    if (name === "token") {
      write(at("token-words"), link.token ? "That is not this dashboard's token." : "");
      sessionStorage.removeItem(TOKEN);
      link.token = "";
      at("token").focus();
    }
    if (name !== "live") drawNotice(name === "lost" && words ? words : "");
  },
});

function drawAll(frame) {
  if (frame.engine) drawEngine(frame.engine);
  if (frame.symbols) {
    if (!frame.symbols.some(([name]) => name === symbol) && frame.symbols.length) choose(frame.symbols[0][0]);
    drawSymbols(frame.symbols, symbol);
    drawPhase(frame.symbols.find(([name]) => name === symbol)?.[2] ?? "");
  }
  if (frame.views) drawViews(frame.views, showView);
  if ("strategies" in frame) {
    drawProfit(frame.strategies);
    drawStrategies(frame.strategies?.strategies ?? [], showStrategy);
  }
  if (frame.links) drawLinks(frame.links);
}

function drawSymbol(part, nowS) {
  if (part.book) seen.book = drawBook(part.book);
  if (part.tape) {
    drawTape(part.tape);
    seen.tape = part.tape.length > 0;
  }
  if (part.prices) write(at("last"), part.prices.last ?? "–");
  seen.chart = drawChart(part, nowS, part.after === 0, all.links?.results.state === "live");
  if (performance.now() - describedMs > DESCRIBED_MS) {
    describedMs = performance.now();
    describeChart(symbol);
  }
}

// -- words where there is nothing to see, or nothing new ------------------------------------------------------

function drawLinks(links) {
  for (const [name, line] of Object.entries(links)) {
    const element = at(`link-${name}`);
    element.dataset.state = line.state;
    element.title = [line.address, line.words].filter(Boolean).join(": ");
    write(element.querySelector(".state"), line.state === "live" ? "" : line.state);
  }
  at("main").dataset.market = links.results.state;
  at("main").dataset.strategies = links.algo.state;
  drawNotice("");
}

const tried = ({ address, words }) => `${address} is tried again${words ? `: ${words}` : "."}`;

function drawNotice(reason) {
  const { results, algo } = all.links ?? {};
  let title = "";
  let words = "";
  const isGone = document.body.dataset.state === "lost";
  if (isGone) {
    title = "The dashboard does not answer";
    words = `What is shown is of ${clock(lostSince)} UTC. ${reason ? `It said: ${reason}. ` : ""}It is tried again.`;
  } else if (document.body.dataset.state === "live" && results?.state === "lost") {
    title = "The runtime does not answer";
    words = `Books, prices and views are of ${clock(results.since_ms)} UTC. ${tried(results)}`;
  } else if (document.body.dataset.state === "live" && results?.state === "stale") {
    title = "The runtime's views stand still";
    words = `They are of ${clock(results.since_ms)} UTC. ${results.words}`;
  } else if (document.body.dataset.state === "live" && algo?.state === "lost") {
    title = "The strategies do not answer";
    words = `Their figures are of ${clock(algo.since_ms)} UTC. Whether they trade is not known. ${tried(algo)}`;
  }
  at("notice").hidden = !title;
  at("retry").hidden = !isGone;
  write(at("notice-title"), title);
  write(at("notice-words"), words);
}

function empty(id, words, command = "") {
  const element = at(id);
  element.hidden = !words;
  if (element.dataset.said === words + command) return;
  element.dataset.said = words + command;
  element.replaceChildren(words);
  if (command) element.append(document.createElement("br"), Object.assign(document.createElement("code"), { textContent: command }));
}

function drawWords() {
  const { results, algo } = all.links ?? {};
  const isWaiting = results?.state === "connecting";
  const where = results?.address ? ` at ${results.address}` : "";
  for (const [panel, name] of Object.entries(NEEDED)) {
    const reason = all.missing?.[name];
    const command = reason?.includes("not keep") ? `deltabook query add queries/${name}.sql --results ${results.address}` : "";
    let words = "";
    if (isWaiting) words = panel === "chart" ? `Waiting for the runtime${where}` : "";
    else if (reason && !seen[panel]) words = `No view ${name}: ${reason}.`;
    else if (panel === "book" && all.symbols && !symbol) words = "The runtime has seen no order yet.";
    else if (seen[panel] === false) words = EMPTY[panel];
    empty(`${panel}-empty`, words, isWaiting || !words ? "" : command);
  }
  empty("views-empty", all.views?.length || isWaiting ? "" : "The runtime keeps no views.");
  const none = !all.strategies?.strategies.length;
  if (algo?.state === "off") empty("strategies-empty", "No strategies are followed.", "deltabook dashboard … --algo HOST:PORT");
  else empty("strategies-empty", !none ? "" : algo?.state === "connecting" ? `Waiting for strategies at ${algo.address}` : "No strategies run.");
  const dry = algo?.state === "live" && all.strategies && !all.strategies.views_connected;
  at("strategies-words").hidden = !dry;
  write(at("strategies-words"), dry ? "The strategies hear nothing of the runtime: they do not trade." : "");
}

// -- what a person does ---------------------------------------------------------------------------------------

function showView(name) {
  view = name;
  viewHave = 0;
  openView(name);
  link.again?.();
}

function showStrategy(name) {
  strategy = name;
  strategyHave = 0;
  trading = {};
  openStrategy(name);
  drawOpenStrategy();
  link.again?.();
}

function drawOpenStrategy() {
  drawStrategy(all.strategies?.strategies.find((line) => line.name === strategy), trading.orders, trading.fills);
}

// The event comes later than what it tells of: another one may be open by then.
at("view-dialog").addEventListener("close", () => {
  if (!at("view-dialog").open) view = "";
});
at("strategy-dialog").addEventListener("close", () => {
  if (!at("strategy-dialog").open) strategy = "";
});
at("symbols").addEventListener("change", (event) => {
  choose(event.target.value);
  drawSymbols(all.symbols ?? [], symbol);
  link.again?.();
});
at("filter").addEventListener("input", () => drawSymbols(all.symbols ?? [], symbol));
at("retry").addEventListener("click", () => link.open());
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  link.token = at("token").value.trim();
  sessionStorage.setItem(TOKEN, link.token);
  link.open();
});
addEventListener("hashchange", () => {
  choose(wished());
  link.again?.();
});

link.token = sessionStorage.getItem(TOKEN) ?? "";
if (symbol) write(at("symbol"), symbol);
drawBook(null);
drawWords();
link.open();
