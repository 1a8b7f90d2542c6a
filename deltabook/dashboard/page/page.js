// The page of the dashboard: keeps the contents of frames by section, and draws the sections that have changed.

import { describeChart, drawChart, forgetChart, setRange, setStrategy } from "./chart.js";
import { at, clock, write } from "./dom.js";
import { drawView, openView } from "./drawer.js";
import { drawEngine, drawSparklines } from "./engine.js";
import { Link } from "./link.js";
import { drawStrategies, drawStrategy, drawViews, openStrategy } from "./lists.js";
import { drawBook, drawPhase, drawSymbols, drawTape } from "./market.js";
import { drawCurve, drawLast, drawMoneyTiles, setCurve } from "./money.js";
import { Sections } from "./sections.js";

const TOKEN = "deltabook-dashboard-token";
const EMPTY = { book: "No orders: the book is empty.", chart: "No price yet.", tape: "No trades in the last minutes." };
const NEEDED = { book: "book_depth", chart: "best_quote", tape: "tape" };
const DESCRIBED_MS = 5000;

let all = new Sections(); // common to all symbols, views and strategies
let have = 0;
let marketS = 0; // market time
let symbol = symbolInAddress();
let ofSymbol = new Sections();
let symbolHave = 0;
let view = "";
let viewHave = 0;
let strategy = "";
let strategyHave = 0;
let trading = {}; // orders and fills of the open strategy
let seen = {}; // panel → whether it has something to show
let lostSince = 0;
let describedMs = 0;

function symbolInAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // the address was typed and has an invalid escape
  }
}

function choose(name) {
  if (name === symbol && symbolHave) return;
  symbol = name;
  symbolHave = 0;
  ofSymbol = new Sections();
  seen = { curve: seen.curve };
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
    const { number, market_ms: marketMs, symbol: partOfSymbol, view: partOfView, strategy: partOfStrategy, ...shared } = frame;
    have = number;
    marketS = marketMs / 1000;
    drawAll(all.enter(shared));
    if (partOfSymbol?.name === symbol) {
      drawSymbol(ofSymbol.enter(partOfSymbol));
      symbolHave = number;
    }
    if (partOfView?.name === view && view) {
      drawView(partOfView, all.values.scales, marketS);
      viewHave = number;
    }
    if (partOfStrategy?.name === strategy && strategy) {
      Object.assign(trading, partOfStrategy);
      strategyHave = number;
    }
    if (strategy && (shared.strategies || shared.traits || partOfStrategy?.orders || partOfStrategy?.fills)) drawOpenStrategy();
    drawWords();
    const rate = link.rate();
    write(at("rate"), rate ? `${rate.frames.toFixed(0)} frames/s, ${(rate.bytes / 1000).toFixed(1)} KB/s` : "");
  },
  state(name, words) {
    if (name === "lost" && document.body.dataset.state !== "lost") lostSince = lostSince || Date.now();
    if (name === "live") lostSince = 0;
    document.body.dataset.state = name === "lost" && !have && !all.values.links ? "connecting" : name;
    write(at("connection-words"), { live: "Live", lost: all.values.links ? "Lost" : "Connecting", token: "Token wanted" }[name] ?? name);
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

function drawAll(changed) {
  const { engine, money, links } = all.values;
  if (changed.has("engine")) {
    drawEngine(engine);
    drawNotice("");
  }
  if (changed.has("figures")) drawSparklines(all.rows("figures"));
  const symbols = all.list("symbols");
  if (changed.has("symbols")) {
    if (!symbols.some(([name]) => name === symbol) && symbols.length) choose(symbols[0][0]);
    drawSymbols(symbols, symbol);
    drawPhase(symbols.find(([name]) => name === symbol)?.[2] ?? "");
  }
  if (changed.has("views")) drawViews(all.list("views"), showView);
  if (changed.has("money")) drawMoneyTiles(money);
  if (changed.has("strategies")) drawStrategies(all.list("strategies"), showStrategy);
  if (changed.has("traits")) drawChoice(all.values.traits ?? []);
  if (changed.has("money_1s")) seen.curve = drawCurve(all, marketS);
  if (changed.has("links")) drawLinks(links);
}

function drawSymbol(changed) {
  const { book, prices } = ofSymbol.values;
  if (["book", "bids", "asks"].some((name) => changed.has(name))) seen.book = drawBook(book, ofSymbol.list("bids"), ofSymbol.list("asks"));
  if (changed.has("tape")) {
    drawTape(ofSymbol.rows("tape"));
    seen.tape = ofSymbol.rows("tape").length > 0;
  }
  if (changed.has("prices")) drawLast(symbol, prices);
  changed.delete("name");
  seen.chart = drawChart(ofSymbol, all, changed, marketS, all.values.links?.results.state === "live");
  if (performance.now() - describedMs > DESCRIBED_MS) {
    describedMs = performance.now();
    describeChart(symbol);
  }
}

// Offer the strategies whose fills and profit can be chosen.
function drawChoice(traits) {
  const choice = at("fills-of");
  const names = traits.map(({ name }) => name);
  if ([...choice.options].slice(1).map(({ value }) => value).join() === names.join()) return;
  const chosen = choice.value;
  choice.replaceChildren(choice.options[0], ...names.map((name) => new Option(name, name)));
  choice.value = names.includes(chosen) ? chosen : "";
  chooseStrategy();
}

// -- notices, and words in empty panels -----------------------------------------------------------------------

function drawLinks(links) {
  for (const [name, line] of Object.entries(links)) {
    const element = at(`link-${name}`);
    element.dataset.state = line.state;
    element.title = [line.address, line.words].filter(Boolean).join(": ");
    write(element.querySelector(".state"), line.state === "live" ? "" : line.state);
    const restarted = element.querySelector(".restarted");
    write(restarted, line.restarted_ms ? `restarted ${clock(line.restarted_ms)}` : "");
    restarted.title = line.restarts > 1 ? `${line.restarts} times; the last time at ${clock(line.restarted_ms)} UTC` : "";
  }
  at("main").dataset.market = links.results.state;
  at("main").dataset.strategies = links.algo.state;
  drawNotice("");
}

const tried = ({ address, words }) => `${address} is tried again${words ? `: ${words}` : "."}`;

function drawNotice(reason) {
  const { results, algo } = all.values.links ?? {};
  const { state } = document.body.dataset;
  const ofDashboard = [];
  const ofViews = [];
  const ofStrategies = [];
  const ofSpark = [];
  if (state === "lost") {
    ofDashboard.push(["The dashboard does not answer", `The page shows the state of ${clock(lostSince)} UTC. ${reason ? `Reason: ${reason}. ` : ""}It is tried again.`]);
  } else if (state === "live") {
    if (results?.state === "lost") ofViews.push(["The runtime does not answer", `Books, prices and views are of ${clock(results.since_ms)} UTC. ${tried(results)}`]);
    if (results?.state === "stale") ofViews.push(["The runtime's views are not updated", `They are of ${clock(results.since_ms)} UTC. ${results.words}`]);
    if (algo?.state === "lost") ofStrategies.push(["The strategies do not answer", `Their figures are of ${clock(algo.since_ms)} UTC. Whether they trade is not known. ${tried(algo)}`]);
    if (all.values.engine?.spark === "starting") ofSpark.push(["Spark is starting, usually 20 s", "Views of its lane follow; all others are there."]);
  }
  const [title, words] = [...ofDashboard, ...ofViews, ...ofStrategies, ...ofSpark][0] ?? ["", ""];
  at("notice").hidden = !title;
  at("retry").hidden = state !== "lost";
  write(at("notice-title"), title);
  write(at("notice-words"), words);
  // An open dialog covers the notice of the page, and shows figures that may be old too.
  for (const [id, notices] of [["view-notice", ofViews], ["strategy-notice", ofStrategies]]) {
    const [first] = [...ofDashboard, ...notices];
    at(id).hidden = !first;
    write(at(id), first ? `${first[0]}. ${first[1]}` : "");
  }
}

function empty(id, words, command = "") {
  const element = at(id);
  element.hidden = !words;
  if (element.dataset.words === words + command) return;
  element.dataset.words = words + command;
  element.replaceChildren(words);
  if (command) element.append(document.createElement("br"), Object.assign(document.createElement("code"), { textContent: command }));
}

function drawWords() {
  const { results, algo } = all.values.links ?? {};
  const isWaiting = results?.state === "connecting";
  const where = results?.address ? ` at ${results.address}` : "";
  for (const [panel, name] of Object.entries(NEEDED)) {
    const reason = all.values.missing?.[name];
    const command = reason?.includes("not keep") ? `deltabook query add queries/${name}.sql --results ${results.address}` : "";
    let words = "";
    if (isWaiting) words = panel === "chart" ? `Waiting for the runtime${where}` : "";
    else if (reason && !seen[panel]) words = `No view ${name}: ${reason}.`;
    else if (panel === "book" && all.lists.symbols && !symbol) words = "The runtime has seen no order yet.";
    else if (seen[panel] === false) words = EMPTY[panel];
    empty(`${panel}-empty`, words, isWaiting || !words ? "" : command);
  }
  empty("views-empty", all.list("views").length || isWaiting ? "" : "The runtime keeps no views.");
  const none = !all.list("strategies").length;
  empty("curve-empty", seen.curve ? "" : algo?.state === "off" ? "No strategies are followed." : "No profit yet.");
  if (algo?.state === "off") empty("strategies-empty", "No strategies are followed.", "deltabook dashboard … --algo HOST:PORT");
  else empty("strategies-empty", !none ? "" : algo?.state === "connecting" ? `Waiting for strategies at ${algo.address}` : "No strategies run.");
  const { money } = all.values;
  const isDisconnected = algo?.state === "live" && money && !money.views_connected;
  at("strategies-words").hidden = !isDisconnected;
  write(at("strategies-words"), isDisconnected ? "The strategies receive nothing from the runtime: they do not trade." : "");
}

// -- input ----------------------------------------------------------------------------------------------------

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
  const isIt = ({ name }) => name === strategy;
  drawStrategy(all.list("strategies").find(isIt), all.values.traits?.find(isIt), trading.orders, trading.fills);
}

// The event comes after the dialog was closed, when it may be open again with another name.
at("view-dialog").addEventListener("close", () => {
  if (!at("view-dialog").open) view = "";
});
at("strategy-dialog").addEventListener("close", () => {
  if (!at("strategy-dialog").open) strategy = "";
});
at("symbols").addEventListener("change", (event) => {
  choose(event.target.value);
  drawSymbols(all.list("symbols"), symbol);
  link.again?.();
});
at("filter").addEventListener("input", () => drawSymbols(all.list("symbols"), symbol));
const rangeS = () => Number(document.querySelector("[name=range]:checked").value);
function chooseStrategy() {
  setStrategy(at("fills-of").value);
  setCurve(rangeS(), at("fills-of").value);
}
at("ranges").addEventListener("change", () => {
  setRange(rangeS());
  setCurve(rangeS(), at("fills-of").value);
});
at("fills-of").addEventListener("change", chooseStrategy);
at("legend-open").addEventListener("click", () => at("legend-dialog").showModal());
at("retry").addEventListener("click", () => link.open());
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  link.token = at("token").value.trim();
  sessionStorage.setItem(TOKEN, link.token);
  link.open();
});
addEventListener("hashchange", () => {
  choose(symbolInAddress());
  link.again?.();
});

link.token = sessionStorage.getItem(TOKEN) ?? "";
if (symbol) write(at("symbol"), symbol);
drawBook(null, [], []);
drawWords();
link.open();
