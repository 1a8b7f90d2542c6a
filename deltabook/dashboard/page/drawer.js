// The dialog of a view: its rows as they change, its newest changes with their signs, and its SQL.

import { at, clock, day, drawTable, grouped, make, makeTabs, seldom, times, write } from "./dom.js";

const MOST_DRAWN = 200; // rows of a table
const DRAW_MS = 200;
const FLASH_MS = 900;
const DAY_NS = 86_400n * 1_000_000_000n;
const KINDS = [
  // Pattern of a column's name → kind of its values.
  [/(^|_)(price|open|high|low|close)$/, "price"],
  [/(^|_)(volume|quantity|lots)$/, "quantity"],
  [/^(t|window_start)$|(^|_)time(_ns)?$/, "time"],
  [/^second$/, "second"],
];

let rows = new Map(); // number → {cells, count, since}
let changes = []; // [number, version, weight, cells], newest last
let columns = []; // {name, isText, kind}
let counts = null;
let scales = {};
let marketS = 0;
let sortColumn = 0;
let sortWay = 1;

// -- values ---------------------------------------------------------------------------------------------------

const isWhole = (text) => /^-?\d+$/.test(text);

function timeText(nanoseconds) {
  const ns = BigInt(nanoseconds);
  const ms = Number((ns % DAY_NS) / 1_000_000n);
  const date = day(Number(ns / 1_000_000_000n));
  return `${date && date !== day(marketS) ? `${date} ` : ""}${clock(ms)}.${String(ms % 1000).padStart(3, "0")}`;
}

// Return a cell in readable form: ticks as prices, lots as quantities, nanoseconds as times of day.
function readable(text, column, cells) {
  if (text === null || !at("view-scaled").checked || !isWhole(text)) return text;
  const { kind } = columns[column];
  if (kind === "time" && BigInt(text) > 1_000_000_000n) return timeText(text);
  if (kind === "second") return timeText(BigInt(text) * 1_000_000_000n).replace(/\.\d+$/, "");
  const place = columns.findIndex(({ name }) => name === "symbol");
  const scale = place < 0 ? null : scales[cells[place]];
  if (!scale) return text;
  if (kind === "price") return times(text, scale[0]);
  if (kind === "quantity") return times(text, scale[1]);
  return text;
}

function compare(a, b, column) {
  const [x, y] = [a.cells[column], b.cells[column]];
  if (x === y) return 0;
  if (x === null || y === null) return x === null ? -1 : 1;
  if (isWhole(x) && isWhole(y)) return BigInt(x) < BigInt(y) ? -1 : 1;
  const [p, q] = [Number(x), Number(y)];
  if (!Number.isNaN(p) && !Number.isNaN(q)) return p - q;
  return x < y ? -1 : 1;
}

// -- tables ---------------------------------------------------------------------------------------------------

const wanted = () => at("view-filter").value.trim().toLowerCase();
const contains = (cells, words) => !words || cells.some((cell) => (cell ?? "null").toLowerCase().includes(words));

function drawRows() {
  const words = wanted();
  const shown = [];
  for (const row of rows.values()) {
    const texts = row.cells.map((cell, column) => readable(cell, column, row.cells));
    if (contains(texts, words)) shown.push({ ...row, texts });
  }
  const tie = (a, b) => columns.reduce((order, _, column) => order || compare(a, b, column), 0);
  shown.sort((a, b) => sortWay * compare(a, b, sortColumn) || tie(a, b));
  const lines = shown.slice(0, MOST_DRAWN);
  const now = performance.now();
  const none = counts ? (words ? "No row has this text." : "The view has no rows.") : "";
  const drawn = drawTable(at("view-rows"), lines.map(({ texts, count }) => (count > 1 ? [...texts.slice(0, -1), `${texts.at(-1)} ×${count}`] : texts)), columns.map(({ isText }) => (isText ? "text" : "")), none);
  lines.forEach(({ since }, place) => drawn[place].classList.toggle("is-new", now - since < FLASH_MS));
  if (lines.some(({ since }) => now - since < FLASH_MS)) setTimeout(redraw, FLASH_MS);
  return { shown: shown.length, drawn: lines.length };
}

function drawChanges() {
  const words = wanted();
  const lines = [];
  for (const [, version, weight, cells] of changes.toReversed()) {
    const texts = cells.map((cell, column) => readable(cell, column, cells));
    if (contains(texts, words)) lines.push([weight > 0 ? `+${weight}` : `−${-weight}`, grouped.format(version), ...texts]);
  }
  const none = changes.length ? "No change has this text." : "Nothing has changed since it was opened.";
  const drawn = drawTable(at("view-changes"), lines, ["sign", "", ...columns.map(({ isText }) => (isText ? "text" : ""))], counts ? none : "");
  lines.forEach(([sign], place) => {
    drawn[place].classList.toggle("added", sign.startsWith("+"));
    drawn[place].classList.toggle("removed", !sign.startsWith("+"));
  });
}

const redraw = seldom(DRAW_MS, () => {
  const dialog = at("view-dialog");
  if (!dialog.open || !columns.length) return;
  const { shown, drawn } = drawRows();
  drawChanges();
  write(at("view-count"), countWords(shown, drawn));
  write(at("view-added"), `+${grouped.format(counts?.added ?? 0)}`);
  write(at("view-removed"), `−${grouped.format(counts?.removed ?? 0)}`);
});

function countWords(shown, drawn) {
  if (!counts) return "Waiting for its first version";
  if (counts.problem) return `✕ The runtime reports: ${counts.problem}`;
  const version = counts.step ? `step ${grouped.format(counts.step)}` : `epoch ${grouped.format(counts.epoch)}`;
  const total = `${grouped.format(counts.total)} row${counts.total === 1 ? "" : "s"} at ${version}`;
  const part = counts.shown < counts.total ? `; ${grouped.format(counts.shown)} of them are here, the newest included; sorting and filtering apply to these` : "";
  const filtered = wanted() ? `; ${grouped.format(shown)} with this text` : "";
  return `${total}${part}${filtered}${drawn < shown ? `; the first ${grouped.format(drawn)} are shown` : ""}`;
}

function drawHeads() {
  const heads = columns.map(({ name, isText }, column) => {
    const head = make("th", isText ? "text" : "");
    head.scope = "col";
    head.setAttribute("aria-sort", column === sortColumn ? (sortWay > 0 ? "ascending" : "descending") : "none");
    const button = head.appendChild(make("button", "sort", name));
    button.type = "button";
    button.addEventListener("click", () => sortBy(column));
    return head;
  });
  const focused = [...at("view-columns").cells].findIndex((cell) => cell.contains(document.activeElement));
  at("view-columns").replaceChildren(...heads);
  if (focused >= 0) heads[focused]?.firstChild.focus();
  const plain = ["±", "Version", ...columns.map(({ name }) => name)].map((name, column) => Object.assign(make("th", column > 1 && columns[column - 2].isText ? "text" : "", name), { scope: "col" }));
  at("change-columns").replaceChildren(...plain);
}

function sortBy(column) {
  sortWay = column === sortColumn ? -sortWay : 1;
  sortColumn = column;
  drawHeads();
  redraw();
}

// -- as a whole -----------------------------------------------------------------------------------------------

export function openView(name) {
  rows = new Map();
  changes = [];
  columns = [];
  counts = null;
  sortColumn = 0;
  sortWay = 1;
  write(at("view-name"), name);
  for (const id of ["view-about", "view-sql", "view-explain"]) write(at(id), "");
  write(at("view-count"), "Waiting for the runtime");
  write(at("view-added"), "+0");
  write(at("view-removed"), "−0");
  at("view-filter").value = "";
  for (const id of ["view-columns", "change-columns", "view-rows", "view-changes"]) at(id).replaceChildren();
  delete at("view-rows").dataset.none;
  delete at("view-changes").dataset.none;
  at("view-dialog").showModal();
}

// Enter and draw the part of a frame for the open view; it has only new rows and changes.
export function drawView(part, known, market) {
  scales = known ?? {};
  marketS = market;
  if ("about" in part) drawAbout(part.about);
  if ("counts" in part) ({ counts } = part);
  if (part.rows) {
    if (part.rows.all) rows = new Map();
    const since = part.rows.all ? -Infinity : performance.now();
    for (const [number, count, cells] of part.rows.rows) {
      if (count) rows.set(number, { cells, count, since });
      else rows.delete(number);
    }
  }
  if (part.changes) changes = (part.changes.all ? [] : changes).concat(part.changes.rows).slice(-MOST_DRAWN);
  redraw();
}

function drawAbout(about) {
  write(at("view-about"), about ? `Class ${about.class}, because: ${about.reason}. Kept by the ${about.lane} lane.` : "The runtime does not keep this view any more.");
  write(at("view-sql"), about ? about.sql || "This runtime does not report the SQL of its views." : "");
  write(at("view-explain"), about?.explain ?? "");
  const described = about?.columns ?? [];
  if (columns.map(({ name }) => name).join() === described.map(([name]) => name).join()) return;
  columns = described.map(([name, type]) => ({ name, isText: ["string", "bool"].includes(type), kind: KINDS.find(([pattern]) => pattern.test(name))?.[1] }));
  drawHeads();
}

makeTabs(document.querySelector("#view-dialog [role=tablist]"));
at("view-filter").addEventListener("input", redraw);
at("view-scaled").addEventListener("change", redraw);
