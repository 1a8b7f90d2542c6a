// The ladder and the tape of a symbol, and the list of symbols.

import { at, grouped, make, rowsFor, write } from "./dom.js";

const DEPTH = 10;
const SHORT = 7; // characters of a quantity for which there is room; a price has room for one more
const FEW_SYMBOLS = 12; // largest number of symbols without a search field
const MOST_SHOWN = 100; // largest number of symbols in the list

const PHASES = {
  "continuous": "● Continuous",
  "auction-open": "◆ Opening auction",
  "auction-close": "◆ Closing auction",
  "auction-halt": "◆ Auction after a halt",
  "halted": "■ Halted",
  "paused": "▮▮ Paused",
  "closed": "■ Closed",
};

// Make a fixed number of rows, so that the page does not move when levels come and go; asks are drawn from below.
function makeLadder(body, side) {
  return Array.from({ length: DEPTH }, () => {
    const row = body.insertRow();
    const head = row.appendChild(make("th"));
    head.scope = "row";
    const [price, quantity, total, orders, own] = Array.from({ length: 5 }, () => row.insertCell());
    return { side, row, head, price, quantity, total, orders, own };
  });
}

const rows = { asks: makeLadder(at("asks"), "Ask").reverse(), bids: makeLadder(at("bids"), "Bid") };

// The bar behind a row is the total quantity up to its price, as a fraction of the deeper side's total.
function drawSide(rowsOfSide, levels) {
  rowsOfSide.forEach((row, place) => {
    const level = levels[place];
    const [price, quantity, total, part, orders, own] = level ?? ["", "", "", 0, null, ""];
    write(row.head, level ? row.side : "");
    write(row.price, price);
    write(row.quantity, quantity);
    write(row.total, total);
    write(row.orders, orders !== null ? grouped.format(orders) : "");
    write(row.own, own ? `◂ ${own}` : "");
    row.row.style.setProperty("--part", String(part));
  });
}

// Draw the ladder; return true if the book has an order.
export function drawBook(book, bids, asks) {
  drawSide(rows.bids, bids);
  drawSide(rows.asks, asks);
  const ladder = at("ladder");
  if (!bids.length && !asks.length) ladder.classList.remove("is-fine");
  else if (bids.concat(asks).some(([price, quantity, total]) => price.length > SHORT + 1 || quantity.length > SHORT || total.length > SHORT)) ladder.classList.add("is-fine");
  write(at("spread"), book?.spread ?? "–");
  const isEmpty = !asks.length && !bids.length;
  const unit = book && !book.is_scaled ? "in ticks and lots" : "";
  write(at("book-words"), isEmpty ? "" : !asks.length ? "No asks" : !bids.length ? "No bids" : unit);
  ladder.parentElement.classList.toggle("is-empty", isEmpty);
  return !isEmpty;
}

// Draw the trades, which come oldest first, with the newest at the top.
export function drawTape(trades) {
  const rows = rowsFor(at("trades"), trades.length, (row) => {
    row.insertCell();
    const price = row.insertCell();
    price.append(make("span", "arrow"), " ", make("span"));
    const quantity = row.insertCell();
    quantity.append(make("small", "times"), " ", make("span"));
  });
  trades.toReversed().forEach(([, when, text, quantity, way, count], place) => {
    const [time, price, volume] = rows[place].cells;
    write(time, when);
    write(price.firstChild, way > 0 ? "↑" : way < 0 ? "↓" : "");
    write(price.lastChild, text);
    price.className = way > 0 ? "up" : way < 0 ? "down" : "";
    write(volume.firstChild, count > 1 ? `×${count}` : "");
    write(volume.lastChild, quantity);
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
  const matches = lines.filter(([name]) => name.toUpperCase().includes(wanted));
  const shown = matches.slice(0, MOST_SHOWN);
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
  write(at("symbols-more"), `${grouped.format(matches.length)} of ${grouped.format(lines.length)}`);
}
