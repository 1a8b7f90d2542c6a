// The live page: requests a frame, draws it, and requests the next one.
"use strict";

const FRAME_MS = 250;
const HIDDEN_MS = 5000; // between frames of a hidden page
const SYMBOLS_MS = 2500; // between requests for a page of the list of symbols
const RETRY_MS = [1000, 2000, 4000, 8000];
const TIMEOUT_MS = 5000;
const RATE_S = 2; // period over which rates are averaged
const LEVELS = 10;
const MOST_TRADES = 50;
const MOST_SHOWN = 100; // largest number of symbols in the list
const FEW_SYMBOLS = 8; // largest number of symbols without a search field
const TOKEN = "deltabook-token";

const PHASES = {
  "continuous": ["● Continuous trading", ""],
  "auction-open": ["◆ Opening auction", "Orders are collected; they trade at one price when the auction ends."],
  "auction-close": ["◆ Closing auction", "Orders are collected; they trade at one price when the auction ends."],
  "auction-halt": ["◆ Auction after a halt", "Orders are collected; they trade at one price when the auction ends."],
  "halted": ["■ Halted", "Nothing trades: new orders are refused, cancellations are taken."],
  "paused": ["▮▮ Paused", "Orders are collected; nothing trades until the pause ends."],
  "closed": ["■ Closed", "The symbol's day is over."],
};

const at = (id) => document.getElementById(id);
const grouped = new Intl.NumberFormat("en-US");

class Refusal extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

// -- drawing --------------------------------------------------------------------------------------------------

function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function cell(row, tag = "td") {
  return row.appendChild(document.createElement(tag));
}

// Ten rows that always exist, so that the page does not move when levels appear or end; the best ask is in the lowest.
function makeLadder(body, side) {
  return Array.from({ length: LEVELS }, () => {
    const row = body.insertRow();
    const head = cell(row, "th");
    head.scope = "row";
    const price = cell(row);
    const quantity = cell(row);
    const bar = quantity.appendChild(document.createElement("span"));
    bar.className = "bar";
    const words = quantity.appendChild(document.createElement("span"));
    return { side, head, price, bar, words, orders: cell(row) };
  });
}

const rows = { asks: makeLadder(at("asks"), "Ask").reverse(), bids: makeLadder(at("bids"), "Bid") };

function drawSide(rowsOfSide, levels, largest) {
  rowsOfSide.forEach((row, place) => {
    const level = levels[place];
    write(row.head, level ? row.side : "");
    write(row.price, level ? level[0] : "");
    write(row.words, level ? level[1] : "");
    write(row.orders, level ? grouped.format(level[2]) : "");
    row.bar.style.setProperty("--part", level && largest ? String(Number(level[1]) / largest) : "0");
  });
}

function drawBook(frame) {
  const largest = Math.max(0, ...frame.bids.concat(frame.asks).map((level) => Number(level[1])));
  drawSide(rows.bids, frame.bids, largest);
  drawSide(rows.asks, frame.asks, largest);
  write(at("spread"), frame.spread ?? "–");
  const isEmpty = !frame.asks.length && !frame.bids.length;
  write(at("book-words"), isEmpty ? "" : !frame.asks.length ? "No asks" : !frame.bids.length ? "No bids" : "");
  at("ladder").classList.toggle("empty", isEmpty);
  at("empty").hidden = !isEmpty;
  write(at("symbol"), frame.symbol);
  write(at("last"), frame.last ?? "–");
  const [name, words] = PHASES[frame.phase];
  write(at("phase"), name);
  at("phase").dataset.phase = frame.phase;
  write(at("phase-words"), words);
  at("phase-words").hidden = !words;
  const chosen = document.querySelector("#symbols :checked + span + span");
  if (chosen && frame.last && document.querySelector("#symbols :checked").value === frame.symbol) write(chosen, frame.last);
}

function timeOfDay(dayNs) {
  return new Date(Math.floor(dayNs / 1e6)).toISOString().slice(11, 23);
}

// Compares exactly: prices of one instrument have the same number of decimals, so their digits can be compared.
function compare(price, before) {
  if (price === null || before === null || price === before) return 0;
  return BigInt(price.replace(".", "")) > BigInt(before.replace(".", "")) ? 1 : -1;
}

function drawTrades(trades) {
  const body = at("trades");
  while (body.rows.length < trades.length) {
    const row = body.insertRow();
    cell(row);
    const price = cell(row);
    price.append(document.createElement("span"), " ", document.createElement("span"));
    price.firstChild.className = "arrow";
    cell(row);
  }
  while (body.rows.length > trades.length) body.deleteRow(-1);
  trades.forEach((trade, place) => {
    const [time, price, quantity] = body.rows[trades.length - 1 - place].cells;
    const way = place ? compare(trade[2], trades[place - 1][2]) : 0;
    write(time, timeOfDay(trade[1]));
    write(price.firstChild, way > 0 ? "▲" : way < 0 ? "▼" : "");
    write(price.lastChild, trade[2] ?? "not known");
    price.className = way > 0 ? "up" : way < 0 ? "down" : "";
    write(quantity, trade[3]);
  });
  at("no-trades").hidden = trades.length > 0;
}

function drawFigures(frame, rates) {
  for (const name of ["orders", "live_orders", "refused", "sessions", "listeners"]) {
    write(at(name), grouped.format(frame.figures[name]));
  }
  write(at("trades-count"), grouped.format(frame.figures.trades));
  write(at("messages-rate"), rates ? grouped.format(rates.messages) : "–");
  write(at("inputs-rate"), rates ? grouped.format(rates.inputs) : "–");
  write(at("session"), frame.session);
  write(at("time"), timeOfDay(frame.day_ns));
}

function drawReplay(replay) {
  at("replay").hidden = replay === null;
  if (replay === null) return;
  const pace = replay.speed === null ? "as fast as possible" : `at ${replay.speed} × real time`;
  const state = replay.finished ? "ended" : replay.paused ? "paused" : replay.seeking ? "skipping ahead" : `playing ${pace}`;
  write(at("replay-words"), `${replay.file.split("/").at(-1)} (${replay.symbol}): ${state}, record ${grouped.format(replay.position)}`);
}

// -- the state of the page ------------------------------------------------------------------------------------

let symbol = symbolOfAddress();
let trades = []; // trades of the symbol, oldest first
let after = 0; // number of the feed's last message that is covered by the trades
let session = "";
let marks = []; // figures of the last seconds, from which rates are computed
let failures = 0;
let timer = 0;
let turn = 0; // number of the newest turn; answers to requests of earlier turns are not drawn
const lines = new Map(); // symbol → its line of the statistics
let linesDueMs = 0;
let nextLine = ""; // symbol after which the next page of the list begins

function symbolOfAddress() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // the address is not a valid encoding
  }
}

function state(name, words) {
  document.body.dataset.state = name;
  write(at("connection-words"), words);
}

function forget() {
  trades = [];
  after = 0;
}

function rates(frame) {
  const { messages, inputs } = frame.figures;
  if (marks.length && marks.at(-1).up_s > frame.up_s) marks = [];
  marks.push({ up_s: frame.up_s, messages, inputs });
  while (marks.length > 2 && marks[1].up_s <= frame.up_s - RATE_S) marks.shift();
  const seconds = frame.up_s - marks[0].up_s;
  if (seconds <= 0) return null;
  return {
    messages: Math.round((messages - marks[0].messages) / seconds),
    inputs: Math.round((inputs - marks[0].inputs) / seconds),
  };
}

async function ask(path) {
  const token = sessionStorage.getItem(TOKEN);
  const answer = await fetch(path, {
    headers: token ? { authorization: `Bearer ${token}` } : {},
    cache: "no-store",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!answer.ok) throw new Refusal(answer.status, (await answer.text()).trim());
  return answer.json();
}

async function readSymbols() {
  const query = nextLine ? `?after=${encodeURIComponent(nextLine)}` : "";
  const found = await ask(`v1/statistics${query}`);
  for (const line of found.symbols) lines.set(line.symbol, line);
  const isLast = !found.symbols.length || found.symbols.at(-1).locate >= found.total_symbols;
  nextLine = isLast ? "" : found.symbols.at(-1).symbol;
  linesDueMs = performance.now() + (lines.size < found.total_symbols ? 0 : SYMBOLS_MS);
  if (!lines.has(symbol) && isLast) choose(lines.keys().next().value ?? "");
  drawSymbols();
}

async function frame() {
  const mine = ++turn;
  clearTimeout(timer);
  const beganMs = performance.now();
  try {
    if (beganMs >= linesDueMs || !symbol) await readSymbols();
    if (mine !== turn) return;
    if (symbol) {
      const found = await ask(`v1/live/${encodeURIComponent(symbol)}?after=${after}`);
      if (mine !== turn) return;
      draw(found);
    }
    failures = 0;
    at("notice").hidden = at("token-form").hidden = true;
    state("live", document.hidden ? "Live, slowly" : "Live");
    const pause = document.hidden ? HIDDEN_MS : FRAME_MS - (performance.now() - beganMs);
    timer = setTimeout(frame, Math.max(pause, 0));
  } catch (error) {
    if (mine === turn) lose(error);
  }
}

function draw(found) {
  if (found.session !== session) {
    if (session && after) {
      // The messages of another session have other numbers: request its trades from the beginning.
      forget();
      lines.clear();
      linesDueMs = 0;
      found = { ...found, trades: [], next_after: 0 };
    }
    session = found.session;
  }
  trades = trades.concat(found.trades).slice(-MOST_TRADES);
  after = found.next_after;
  drawBook(found);
  drawTrades(trades);
  drawFigures(found, rates(found));
  drawReplay(found.replay);
}

function lose(error) {
  if (error.status === 401) {
    const hadToken = sessionStorage.getItem(TOKEN) !== null;
    sessionStorage.removeItem(TOKEN);
    write(at("token-words"), hadToken ? "That is not this exchange's token." : "");
    at("notice").hidden = true;
    at("token-form").hidden = false;
    at("token").value = "";
    at("token").focus();
    state("token", "Token needed");
    return;
  }
  if (error.status === 404 && symbol) {
    // Another exchange, without the symbol, has this port now.
    choose("");
    lines.clear();
    linesDueMs = 0;
  }
  const waitMs = RETRY_MS[Math.min(failures++, RETRY_MS.length - 1)];
  const words = error instanceof Refusal ? `It answered ${error.status}: ${error.message}.` : "The exchange does not answer.";
  const isNew = document.body.dataset.state === "connecting";
  write(at("notice-title"), isNew ? "No connection yet" : "Connection lost");
  write(at("notice-words"), `${words} ${isNew ? "" : "What is shown is old. "}Next try in ${waitMs / 1000} s.`);
  at("notice").hidden = false;
  if (!isNew) state("lost", "Lost");
  timer = setTimeout(frame, waitMs);
}

// -- symbols --------------------------------------------------------------------------------------------------

function choose(name) {
  if (name === symbol) return;
  symbol = name;
  forget();
  history.replaceState(null, "", name ? `#${encodeURIComponent(name)}` : " ");
}

function label(line) {
  const element = document.createElement("label");
  const input = element.appendChild(document.createElement("input"));
  input.type = "radio";
  input.name = "symbol";
  input.value = line.symbol;
  for (const tag of ["span", "span", "small"]) element.append(document.createElement(tag));
  write(element.children[1], line.symbol);
  return element;
}

// Returns the price of a number of ticks as text. It is exact up to 2^53 ticks, the largest whole number in JavaScript.
function price(ticks, tickSize) {
  if (!/^\d+(\.\d+)?$/.test(tickSize)) return "";
  const decimals = (tickSize.split(".")[1] ?? "").length;
  const digits = String(BigInt(ticks) * BigInt(tickSize.replace(".", ""))).padStart(decimals + 1, "0");
  return decimals ? `${digits.slice(0, -decimals)}.${digits.slice(-decimals)}` : digits;
}

function drawSymbols() {
  const wanted = at("filter").value.trim().toUpperCase();
  const found = [...lines.values()].filter((line) => line.symbol.toUpperCase().includes(wanted));
  const shown = found.slice(0, MOST_SHOWN);
  const list = at("symbols");
  const now = [...list.children].map((element) => element.firstChild.value).join();
  if (now !== shown.map((line) => line.symbol).join()) list.replaceChildren(...shown.map(label));
  shown.forEach((line, place) => {
    const [input, , last, phase] = list.children[place].children;
    input.checked = line.symbol === symbol;
    write(last, line.last_ticks === null ? "" : price(line.last_ticks, line.tick_size));
    write(phase, line.phase === "continuous" ? "" : PHASES[line.phase][0]);
  });
  at("filter").hidden = lines.size <= FEW_SYMBOLS;
  at("symbols-more").hidden = shown.length === lines.size;
  write(at("symbols-more"), `${grouped.format(found.length)} of ${grouped.format(lines.size)} symbols`);
}

// -- events of the user ---------------------------------------------------------------------------------------

at("symbols").addEventListener("change", (event) => {
  choose(event.target.value);
  drawTrades(trades);
  frame();
});
at("filter").addEventListener("input", drawSymbols);
at("retry").addEventListener("click", frame);
at("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(TOKEN, at("token").value.trim());
  state("connecting", "Connecting");
  frame();
});
addEventListener("hashchange", () => {
  choose(symbolOfAddress());
  frame();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && document.body.dataset.state === "live") frame();
});

frame();
