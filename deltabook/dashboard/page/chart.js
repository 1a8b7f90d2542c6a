/* global uPlot */
// The chart of a symbol: its price as candles, averages as lines, own fills as marks, and below them the depth over time.

import { at, clock, color, day, grouped, make, seldom, times, write } from "./dom.js";

const WIDTHS_S = [1, 3, 5, 10, 15, 30, 60, 300, 900, 3600];
const MOST_CANDLES = 120;
const FINE_S = 900; // longer ranges are drawn from bars of a minute
const DRAW_MS = 250;
const NEAR_PX = 14; // distance from a mark within which the words below the chart describe it
const LINES = [
  { name: "Mid", field: "mid", color: "--text", dash: [2, 2], width: 1.25, shown: false, title: "Middle of the best bid and ask" },
  { name: "VWAP trades", field: "vwap", color: "--third", dash: [8, 4], width: 1.75, shown: true, title: "Volume-weighted average price of recent trades" },
  { name: "VWAP bids", field: "vwap_bid", color: "--bid", dash: [2, 3], width: 1.5, shown: false, title: "Volume-weighted average price of all resting bids" },
  { name: "VWAP asks", field: "vwap_ask", color: "--ask", dash: [2, 3], width: 1.5, shown: false, title: "Volume-weighted average price of all resting asks" },
];

const svg = (tag, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

let symbol = null; // sections of the symbol
let all = null; // sections common to all symbols
let nowS = 0; // market time
let rangeS = 300;
let strategy = "";
let candles = []; // {begin, open, high, low, close, volume, trades} in ticks and lots, oldest first
let widthS = 1;
let beginS = 0;
let marks = []; // fills of a candle on a side: {time, price, side, lots, fills, strategies}
let plot = null;
let pinned = null; // time of the candle that the keyboard has chosen
const buttons = new Map();

const tick = () => symbol?.values.scale?.tick ?? "1";
const decimals = () => tick().split(".")[1]?.length ?? 0;
const price = (ticks) => (ticks === null ? null : ticks * Number(tick()));
const quantity = (lots) => times(lots, symbol?.values.scale?.lot ?? "1");

// -- data -----------------------------------------------------------------------------------------------------

// Return the chosen range in seconds, or the length of the data if that is shorter; at least a minute.
function spanS() {
  const first = Math.min(symbol.rows("bars_1s")[0]?.[0] ?? nowS, symbol.rows("bars_1m")[1]?.[0] ?? nowS, symbol.rows("lines_1s")[0]?.[0] ?? nowS);
  return Math.max(60, Math.min(rangeS || Infinity, nowS - first));
}

function prepare() {
  const span = spanS();
  widthS = WIDTHS_S.find((width) => span / width <= MOST_CANDLES && (span <= FINE_S || width >= 60)) ?? WIDTHS_S.at(-1);
  beginS = Math.floor((nowS - span) / widthS) * widthS;
  const fine = widthS < 60;
  candles = [];
  for (const [begin, open, high, low, close, volume, trades] of symbol.rows(fine ? "bars_1s" : "bars_1m")) {
    if (begin < beginS) continue;
    const start = Math.floor(begin / widthS) * widthS;
    const last = candles.at(-1);
    if (last?.begin === start) {
      Object.assign(last, { high: Math.max(last.high, high), low: Math.min(last.low, low), close, volume: last.volume + volume, trades: last.trades + trades });
    } else candles.push({ begin: start, open, high, low, close, volume, trades });
  }
  marks = aggregated();
}

// Return own fills by candle and side, at their average price.
function aggregated() {
  const byCandle = new Map();
  for (const [, time, ticks, side, lots, fills, name] of symbol.rows("marks")) {
    if (time < beginS || (strategy && name !== strategy)) continue;
    const start = Math.floor(time / widthS) * widthS;
    const key = `${start}${side}`;
    const mark = byCandle.get(key) ?? { begin: start, side, lots: 0, value: 0, fills: 0, strategies: new Set() };
    byCandle.set(key, mark);
    mark.lots += lots;
    mark.value += lots * ticks;
    mark.fills += fills;
    mark.strategies.add(name);
  }
  return [...byCandle.values()].map((mark) => ({ ...mark, time: mark.begin + widthS / 2, price: price(mark.value / mark.lots) }));
}

// Return the columns of the plot, with one value for each interval of a candle, even without trades. A line has its
// last value in each interval.
function data() {
  const count = Math.floor((nowS - beginS) / widthS) + 1;
  const columns = [Array.from({ length: count }, (_, place) => beginS + (place + 0.5) * widthS)];
  for (let column = 0; column <= LINES.length; column++) columns.push(new Array(count).fill(null));
  for (const candle of candles) {
    const place = (candle.begin - beginS) / widthS;
    if (place < count) columns[1][place] = price(candle.close);
  }
  for (const [time, ...values] of symbol.rows(widthS < 60 ? "lines_1s" : "lines_1m")) {
    const place = Math.floor((time - beginS) / widthS);
    if (place < 0 || place >= count) continue;
    values.forEach((value, line) => {
      if (value !== null) columns[line + 2][place] = price(value);
    });
  }
  return columns;
}

// Return the lowest and the highest price of the chart, with room for marks. The height is at least 6 ticks, so that
// small moves look small. Averages far from all candles are cut off, so that candles keep their height.
function span(columns) {
  const near = candles.flatMap(({ high, low }) => [price(high), price(low)]).concat(marks.map((mark) => mark.price));
  const lines = LINES.flatMap(({ name }, line) => (isShown(name) ? columns[line + 2] : []));
  const values = (near.length ? near : lines).filter((value) => value !== null);
  if (!values.length) return [0, 1];
  let least = Math.min(...values);
  let most = Math.max(...values);
  const size = most - least;
  for (const value of lines) {
    if (value !== null && value > least - size && value < most + size) {
      least = Math.min(least, value);
      most = Math.max(most, value);
    }
  }
  const half = Math.max((most - least) * 0.58, 3 * Number(tick()), 1e-9);
  return [(least + most) / 2 - half, (least + most) / 2 + half];
}

const isShown = (name) => buttons.get(name).getAttribute("aria-pressed") === "true";

// -- drawing --------------------------------------------------------------------------------------------------

function clipped(chart, draw) {
  const { ctx } = chart;
  ctx.save();
  ctx.beginPath();
  ctx.rect(chart.bbox.left, chart.bbox.top, chart.bbox.width, chart.bbox.height);
  ctx.clip();
  draw(ctx);
  ctx.restore();
}

// Hatch the times in which the runtime was not followed.
function drawGaps(chart) {
  clipped(chart, (ctx) => {
    const { top, height } = chart.bbox;
    ctx.strokeStyle = color("--quiet");
    ctx.globalAlpha = 0.45;
    ctx.lineWidth = devicePixelRatio;
    for (const [begin, end] of all.rows("gaps")) {
      const left = chart.valToPos(begin, "x", true);
      const right = Math.max(left + 3 * devicePixelRatio, chart.valToPos(end ?? nowS, "x", true));
      if (right < chart.bbox.left) continue;
      ctx.save();
      ctx.beginPath();
      ctx.rect(left, top, right - left, height);
      ctx.clip();
      ctx.beginPath();
      for (let x = left - height; x < right; x += 9 * devicePixelRatio) {
        ctx.moveTo(x, top + height);
        ctx.lineTo(x + height, top);
      }
      ctx.stroke();
      ctx.restore();
    }
  });
}

// A candle that closed below its open is full, any other is hollow, so that the two differ without colours too.
function drawCandles(chart) {
  const body = Math.max(1, (chart.bbox.width * widthS) / (chart.scales.x.max - chart.scales.x.min) - 2 * devicePixelRatio);
  const half = Math.min(body, 14 * devicePixelRatio) / 2;
  const colors = { up: color("--bid"), down: color("--ask"), card: color("--card") };
  clipped(chart, (ctx) => {
    ctx.lineWidth = devicePixelRatio;
    ctx.setLineDash([]);
    for (const { begin, open, high, low, close } of candles) {
      const x = Math.round(chart.valToPos(begin + widthS / 2, "x", true)) + 0.5;
      const [o, h, l, c] = [open, high, low, close].map((ticks) => Math.round(chart.valToPos(price(ticks), "y", true)) + 0.5);
      const isDown = close < open;
      ctx.strokeStyle = isDown ? colors.down : colors.up;
      ctx.fillStyle = isDown ? colors.down : colors.card;
      ctx.beginPath();
      ctx.moveTo(x, h);
      ctx.lineTo(x, l);
      ctx.stroke();
      ctx.beginPath();
      ctx.rect(x - half, Math.min(o, c), 2 * half, Math.max(1, Math.abs(c - o)));
      ctx.fill();
      ctx.stroke();
    }
  });
}

// A purchase points up from below its price and is full; a sale points down from above and is hollow. The size grows
// with the quantity.
function drawMarks(chart) {
  const most = Math.max(1, ...marks.map((mark) => mark.lots));
  const colors = { B: color("--bid"), S: color("--ask"), card: color("--card") };
  clipped(chart, (ctx) => {
    ctx.lineWidth = 1.3 * devicePixelRatio;
    ctx.setLineDash([]);
    for (const mark of marks) {
      const size = (3 + 3 * Math.sqrt(mark.lots / most)) * devicePixelRatio;
      const way = mark.side === "B" ? 1 : -1;
      const x = chart.valToPos(mark.time, "x", true);
      const y = chart.valToPos(mark.price, "y", true);
      ctx.beginPath();
      ctx.moveTo(x, y);
      ctx.lineTo(x - size, y + way * size * 1.6);
      ctx.lineTo(x + size, y + way * size * 1.6);
      ctx.closePath();
      ctx.strokeStyle = colors[mark.side];
      ctx.fillStyle = way > 0 ? colors.B : colors.card;
      ctx.fill();
      ctx.stroke();
    }
  });
}

function options(width, height) {
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1, size: 4 }, font: "12px system-ui, \"DejaVu Sans\", sans-serif" };
  return {
    width,
    height,
    legend: { show: false },
    padding: [6, 28, 0, 0], // half a label of the time axis
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    cursor: { drag: { x: false, y: false }, points: { show: false }, sync: { key: "market" } },
    scales: {
      x: { time: true, range: () => [beginS, Math.max(nowS, beginS + 1) + widthS / 2] },
      y: { range: (chart) => span(chart.data) },
    },
    axes: [
      { ...axis, space: 66, size: 24, values: (_, splits) => splits.map((time) => (spanS() > 7200 ? clock(time * 1000).slice(0, 5) : clock(time * 1000))) },
      { ...axis, space: 34, values: (_, splits, __, ___, step) => splits.map((value) => value.toFixed(Math.max(decimals(), step >= 1 ? 0 : Math.ceil(-Math.log10(step) - 1e-9)))), size: (_, values) => 16 + 7.2 * Math.max(3, ...(values ?? [""]).map((value) => value.length)) },
    ],
    series: [
      {},
      { label: "Close", paths: () => null, points: { show: false } },
      ...LINES.map(({ name, color: variable, dash, width: px }) => ({ label: name, stroke: color(variable), dash, width: px, show: isShown(name), points: { show: false }, spanGaps: false })),
    ],
    hooks: { drawClear: [drawGaps], draw: [drawCandles, drawMarks], setCursor: [readOut] },
  };
}

// -- the values below the cursor ------------------------------------------------------------------------------

function nearMark(chart) {
  const { left, top } = chart.cursor;
  let words = "";
  let nearest = NEAR_PX;
  for (const mark of left >= 0 ? marks : []) {
    const distance = Math.hypot(chart.valToPos(mark.time, "x") - left, chart.valToPos(mark.price, "y") - top);
    if (distance < nearest) {
      nearest = distance;
      words = markWords(mark);
    }
  }
  return words;
}

function markWords({ side, lots, fills, price: value, strategies }) {
  const count = fills > 1 ? ` in ${grouped.format(fills)} fills at ${value.toFixed(decimals() + 2)} on average` : ` at ${value.toFixed(decimals())}`;
  return `${side === "B" ? "▲ Bought" : "▽ Sold"} ${quantity(lots)}${count}: ${[...strategies].join(", ")}`;
}

function candleWords(candle) {
  const { begin, open, high, low, close, volume, trades } = candle;
  const [o, h, l, c] = [open, high, low, close].map((ticks) => times(ticks, tick()));
  const change = close - open;
  const moved = `${change > 0 ? "+" : change < 0 ? "−" : ""}${times(Math.abs(change), tick())}`;
  return `${clock(begin * 1000)}  O ${o}  H ${h}  L ${l}  C ${c}  ${moved}  quantity ${quantity(volume)} in ${grouped.format(trades)} trades`;
}

// Describe the candle and the mark at the cursor, or else the newest candle.
function readOut(chart) {
  const place = pinned === null ? chart.cursor.idx : Math.floor((pinned - beginS) / widthS);
  const candle = place === null || place === undefined ? candles.at(-1) : candles.find(({ begin }) => begin === beginS + place * widthS);
  const time = beginS + (place ?? 0) * widthS;
  const words = candle ? candleWords(candle) : symbol && place !== null && place !== undefined ? `${clock(time * 1000)}  no trade` : "";
  const mark = pinned === null ? nearMark(chart) : marks.filter(({ begin }) => begin === time).map(markWords).join("; ");
  write(at("readout"), [words, mark].filter(Boolean).join("   "));
}

at("plot").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (event.key === "Escape") {
    pinned = null;
    plot?.setCursor({ left: -10, top: -10 });
  }
  if (!step || !plot) return;
  event.preventDefault();
  const last = Math.floor((nowS - beginS) / widthS);
  const place = pinned === null ? last + (step < 0 ? 1 : 0) : Math.floor((pinned - beginS) / widthS);
  pinned = beginS + Math.min(last, Math.max(0, place + step)) * widthS;
  plot.setCursor({ left: plot.valToPos(pinned + widthS / 2, "x"), top: plot.bbox.height / 2 / devicePixelRatio }, false);
  readOut(plot);
});
for (const name of ["blur", "pointermove"]) {
  at("plot").addEventListener(name, () => {
    pinned = null;
  });
}

// -- depth over time ------------------------------------------------------------------------------------------

function drawHeat() {
  const canvas = at("heat");
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (!plot || !width || !height) return;
  const ratio = devicePixelRatio;
  if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
  if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  const ctx = canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  const left = plot.bbox.left / ratio;
  const right = left + plot.bbox.width / ratio;
  const { min, max } = plot.scales.x;
  const place = (time) => left + ((time - min) / (max - min)) * (right - left);
  const samples = symbol.rows("depth").filter(([time]) => time >= min - 2 && time <= max);
  const ladders = samples.flatMap(([, bids, asks]) => [bids, asks]);
  let least = Infinity;
  let most = -Infinity;
  const amounts = [];
  for (const ladder of ladders) {
    for (let at_ = 0; at_ < ladder.length; at_ += 2) {
      least = Math.min(least, ladder[at_]);
      most = Math.max(most, ladder[at_]);
      amounts.push(ladder[at_ + 1]);
    }
  }
  ctx.fillStyle = color("--quiet");
  ctx.font = "12px system-ui, \"DejaVu Sans\", sans-serif";
  ctx.textAlign = "right";
  if (!amounts.length) return;
  amounts.sort((a, b) => a - b);
  const strong = amounts[Math.floor(amounts.length * 0.95)] || 1;
  const row = height / (most - least + 1);
  for (const [side, variable] of [[1, "--bid"], [2, "--ask"]]) {
    ctx.fillStyle = color(variable);
    samples.forEach((sample, number) => {
      const x = Math.max(left, place(sample[0]));
      const next = samples[number + 1]?.[0] ?? Infinity;
      const end = Math.min(right, place(Math.min(next, sample[0] + Math.max(widthS, 4))));
      const ladder = sample[side];
      for (let at_ = 0; at_ < ladder.length && end > x; at_ += 2) {
        ctx.globalAlpha = Math.min(1, 0.08 + 0.92 * (ladder[at_ + 1] / strong));
        ctx.fillRect(x, (most - ladder[at_]) * row, end - x + 0.3, Math.max(1, row));
      }
    });
  }
  ctx.globalAlpha = 1;
  ctx.fillStyle = color("--quiet");
  ctx.textBaseline = "top";
  ctx.fillText(times(most, tick()), left - 8, 0);
  ctx.textBaseline = "bottom";
  ctx.fillText(times(least, tick()), left - 8, height);
}

// -- as a whole -----------------------------------------------------------------------------------------------

function build() {
  const { clientWidth, clientHeight } = at("plot");
  if (!symbol || !clientWidth || !clientHeight) return;
  plot?.destroy();
  prepare();
  plot = new uPlot(options(clientWidth, clientHeight), data(), at("plot"));
  drawHeat();
}

const redraw = seldom(DRAW_MS, () => {
  if (!symbol) return;
  if (!plot) {
    build();
    return;
  }
  prepare();
  plot.setData(data());
  readOut(plot);
});
const redrawHeat = seldom(1000, () => symbol && drawHeat());

function makeLegend() {
  for (const { name, color: variable, dash, shown, title } of LINES) {
    const button = at("legend").appendChild(make("button"));
    button.type = "button";
    button.title = title;
    button.setAttribute("aria-pressed", String(shown));
    const sample = button.appendChild(svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }));
    sample.append(svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: `var(${variable})`, "stroke-width": 2, "stroke-dasharray": dash.join(" ") }));
    button.append(make("span", "", name), " ", make("strong", "value", "–"));
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      plot?.setSeries(LINES.findIndex((line) => line.name === name) + 2, { show: on });
    });
    buttons.set(name, button);
  }
}

// Remove the chart, before another symbol or none is shown.
export function forgetChart() {
  symbol = null;
  pinned = null;
  plot?.destroy();
  plot = null;
}

export function setRange(seconds) {
  rangeS = seconds;
  pinned = null;
  redraw();
  redrawHeat();
}

export function setStrategy(name) {
  strategy = name;
  redraw();
}

// Draw the sections of a symbol; return true if the chart has a price.
export function drawChart(sections, shared, changed, market, live) {
  symbol = sections;
  all = shared;
  nowS = market;
  const { prices } = sections.values;
  for (const { name, field } of LINES) write(buttons.get(name).querySelector(".value"), prices?.[field] ?? "–");
  write(at("market-day"), day(market));
  const isDrawn = sections.rows("bars_1m").length > 0 || sections.rows("lines_1s").some((line) => line.slice(1).some((value) => value !== null));
  at("plot").classList.toggle("is-empty", !isDrawn);
  if (live || changed.size) redraw();
  if (changed.has("depth") || !plot) redrawHeat();
  return isDrawn;
}

export function describeChart(name) {
  if (!symbol) return;
  const { prices } = symbol.values;
  const averages = LINES.filter(({ field }) => prices?.[field]).map((line) => `${line.name} ${prices[line.field]}`);
  const fills = marks.reduce((sum, mark) => sum + mark.fills, 0);
  const gaps = all.rows("gaps").filter(([, end]) => (end ?? nowS) >= beginS).length;
  const missing = gaps ? ` ${gaps} gap${gaps > 1 ? "s" : ""} in which the runtime was not followed.` : "";
  at("plot").setAttribute("aria-label", `Price of ${name}, ${candles.length} candles of ${grouped.format(widthS)} s.${missing} Last ${prices?.last ?? "none"}. ${averages.join(", ")}. ${grouped.format(fills)} own fills. Arrow keys read candle by candle.`);
}

makeLegend();
new ResizeObserver(() => {
  const { clientWidth: width, clientHeight: height } = at("plot");
  if (!plot) build();
  else if (width && height && (width !== plot.width || height !== plot.height)) plot.setSize({ width, height });
  redrawHeat();
}).observe(at("plot"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
