// One symbol's ladder and tape, and the list of symbols.

import { at, grouped, make, rowsFor, write } from "./dom.js";

const DEPTH = 10;
const SHORT = 7; // characters of a quantity, and one less than of a price
const FEW_SYMBOLS = 12; // that need no search
const MOST_SHOWN = 100; // in the list at once

const PHASES = {
  "continuous": "● Continuous",
  "auction-open": "◆ Opening auction",
  "auction-close": "◆ Closing auction",
  "auction-halt": "◆ Auction after a halt",
  "halted": "■ Halted",
  "paused": "▮▮ Paused",
  "closed": "■ Closed",
};

// Rows that stay, so that the page does not jump when levels come and go; asks are drawn from below.
function makeLadder(body, side) {
  return Array.from({ length: DEPTH }, () => {
    const row = body.insertRow();
    const head = row.appendChild(make("th"));
    head.scope = "row";
    const price = row.insertCell();
    const quantity = row.insertCell();
    const bar = quantity.appendChild(make("span", "bar"));
    const words = quantity.appendChild(make("span"));
    return { side, head, price, bar, words, orders: row.insertCell(), own: row.insertCell() };
  });
}

const rows = { asks: makeLadder(at("asks"), "Ask").reverse(), bids: makeLadder(at("bids"), "Bid") };

function drawSide(rowsOfSide, levels, largest) {
  rowsOfSide.forEach((row, place) => {
    const level = levels[place];
    write(row.head, level ? row.side : "");
    write(row.price, level ? level[0] : "");
    write(row.words, level ? level[1] : "");
    write(row.orders, level && level[2] !== null ? grouped.format(level[2]) : "");
    write(row.own, level && level[3] ? `◂ ${level[3]}` : "");
    row.bar.style.setProperty("--part", level && largest ? String(Number(level[1]) / largest) : "0");
  });
}

export function drawBook(book) {
  const bids = book?.bids ?? [];
  const asks = book?.asks ?? [];
  const largest = Math.max(0, ...bids.concat(asks).map((level) => Number(level[1])));
  drawSide(rows.bids, bids, largest);
  drawSide(rows.asks, asks, largest);
  const ladder = at("ladder");
  if (!bids.length && !asks.length) ladder.classList.remove("is-fine");
  else if (bids.concat(asks).some(([price, quantity]) => price.length > SHORT + 1 || quantity.length > SHORT)) ladder.classList.add("is-fine");
  write(at("spread"), book?.spread ?? "–");
  const isEmpty = !asks.length && !bids.length;
  const unit = book && !book.is_scaled ? "in ticks and lots" : "";
  write(at("book-words"), isEmpty ? "" : !asks.length ? "No asks" : !bids.length ? "No bids" : unit);
  ladder.parentElement.classList.toggle("is-empty", isEmpty);
  return !isEmpty;
}

export function drawTape(trades) {
  const found = rowsFor(at("trades"), trades.length, (row) => {
    row.insertCell();
    const price = row.insertCell();
    price.append(make("span", "arrow"), " ", make("span"));
    row.insertCell();
  });
  trades.forEach(([, when, text, quantity, way], place) => {
    const [time, price, volume] = found[place].cells;
    write(time, when);
    write(price.firstChild, way > 0 ? "▲" : way < 0 ? "▼" : "");
    write(price.lastChild, text);
    price.className = way > 0 ? "up" : way < 0 ? "down" : "";
    write(volume, quantity);
  });
}

export function drawPhase(phase) {
  write(at("phase"), phase ? (PHASES[phase] ?? phase) : "");
  at("phase").dataset.phase = phase;
}

function label(name) {
  const element = make("label");
  const input = element.appendChild(make("input"));
  input.type = "radio";
  input.name = "symbol";
  input.value = name;
  element.append(make("span", "", name), make("small"));
  return element;
}

export function drawSymbols(lines, chosen) {
  const wanted = at("filter").value.trim().toUpperCase();
  const found = lines.filter(([name]) => name.toUpperCase().includes(wanted));
  const shown = found.slice(0, MOST_SHOWN);
  const list = at("symbols");
  const now = [...list.children].map((element) => element.firstChild.value).join();
  if (now !== shown.map(([name]) => name).join()) list.replaceChildren(...shown.map(([name]) => label(name)));
  shown.forEach(([name, last, phase], place) => {
    const [input, , words] = list.children[place].children;
    input.checked = name === chosen;
    const halted = phase && phase !== "continuous" ? (PHASES[phase] ?? phase) : "";
    write(words, halted || (last ?? ""));
  });
  at("filter").hidden = lines.length <= FEW_SYMBOLS;
  at("symbols-more").hidden = shown.length === lines.length;
  write(at("symbols-more"), `${grouped.format(found.length)} of ${grouped.format(lines.length)}`);
}
