/* global uPlot */
// The price of the last ten minutes, its averages, and our own fills on it.

import { at, make, write } from "./dom.js";

const SPAN_S = 600;
const LEAST_S = 60; // that are shown
const MARK_PX = 12; // near enough to be told of
const LINES = [
  { name: "Mid", field: "mid", color: "--text", dash: [], width: 1.75, shown: true },
  { name: "VWAP trades", field: "vwap", color: "--vwap", dash: [8, 4], width: 1.75, shown: true, title: "Of recent trades" },
  { name: "VWAP bids", field: "vwap_bid", color: "--bid", dash: [2, 3], width: 1.5, shown: false, title: "Of all resting bids" },
  { name: "VWAP asks", field: "vwap_ask", color: "--ask", dash: [2, 3], width: 1.5, shown: false, title: "Of all resting asks" },
];

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const svg = (tag, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
};

let points = []; // [time_s, mid, vwap, vwap_bid, vwap_ask], oldest first
let now = null; // the newest, not yet one of them
let marks = [];
let plot = null;
let texts = {};
const buttons = new Map();

function triangle(context, x, y, size, isUp) {
  const way = isUp ? 1 : -1;
  context.beginPath();
  context.moveTo(x, y);
  context.lineTo(x - size, y + way * size * 1.6);
  context.lineTo(x + size, y + way * size * 1.6);
  context.closePath();
}

// A purchase points up from below its price and is full; a sale points down from above and is hollow.
function drawMarks(chart) {
  const context = chart.ctx;
  const ratio = devicePixelRatio;
  context.save();
  context.beginPath();
  context.rect(chart.bbox.left, chart.bbox.top, chart.bbox.width, chart.bbox.height);
  context.clip();
  for (const [time, price, side] of marks) {
    const isBuy = side === "B";
    triangle(context, chart.valToPos(time, "x", true), chart.valToPos(price, "y", true), 3.6 * ratio, isBuy);
    context.lineWidth = 1.2 * ratio;
    context.strokeStyle = isBuy ? color("--bid") : color("--ask");
    context.fillStyle = isBuy ? color("--bid") : color("--card");
    context.fill();
    context.stroke();
  }
  context.restore();
}

function tellMark(chart) {
  const { left, top } = chart.cursor;
  let words = "";
  let nearest = MARK_PX;
  if (left >= 0) {
    for (const [time, price, side, said] of marks) {
      const distance = Math.hypot(chart.valToPos(time, "x") - left, chart.valToPos(price, "y") - top);
      if (distance < nearest) {
        nearest = distance;
        words = `${side === "B" ? "Bought" : "Sold"}: ${said}`;
      }
    }
  }
  write(at("mark-words"), words);
}

// At least a minute, also of a single point.
function window_(times) {
  const last = times.at(-1) ?? LEAST_S;
  const first = Math.min(times[0] ?? 0, last - LEAST_S);
  return [first, last + (last - first) * 0.01];
}

// With room above and below for marks; what hardly moves is not blown up to fill the chart.
function span(least, most) {
  if (least === null || most === null) return [0, 1];
  const half = Math.max((most - least) * 0.6, Math.abs(most) * 0.0003, 1e-9);
  const middle = (least + most) / 2;
  return [middle - half, middle + half];
}

// As many as tell two neighbours on the axis apart.
function decimals(step) {
  let digits = 0;
  while (digits < 12 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits++;
  return digits;
}

function options(width, height) {
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1, size: 4 }, font: "12px system-ui, \"DejaVu Sans\", sans-serif" };
  return {
    width,
    height,
    legend: { show: false },
    padding: [8, 28, 0, 0], // half a label of the time axis
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    cursor: { drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      y: { range: (_, least, most) => span(least, most) },
      x: { time: true, range: (chart) => window_(chart.data[0]) },
    },
    axes: [
      { ...axis, space: 70, size: 26, values: [[1, "{HH}:{mm}:{ss}", null, null, null, null, null, null, 1]] },
      { ...axis, values: (_, splits, __, ___, step) => splits.map((value) => value.toFixed(decimals(step))), size: (_, values) => 16 + 7.2 * Math.max(3, ...(values ?? [""]).map((value) => value.length)) },
    ],
    series: [
      {},
      ...LINES.map(({ name, color: variable, dash, width: px, shown }) => ({
        label: name, stroke: color(variable), dash, width: px, show: buttons.get(name)?.getAttribute("aria-pressed") === "true" || (!buttons.size && shown), points: { show: false }, spanGaps: false,
      })),
    ],
    hooks: { draw: [drawMarks], setCursor: [tellMark] },
  };
}

function data() {
  const all = now && now[0] > (points.at(-1)?.[0] ?? 0) ? [...points, now] : points;
  const begin = (all.at(-1)?.[0] ?? 0) - SPAN_S;
  const shown = all.filter((point) => point[0] >= begin);
  return [0, 1, 2, 3, 4].map((column) => shown.map((point) => point[column]));
}

function build() {
  const { clientWidth, clientHeight } = at("plot");
  if (!clientWidth || !clientHeight) return;
  plot?.destroy();
  plot = new uPlot(options(clientWidth, clientHeight), data(), at("plot"));
}

function makeLegend() {
  for (const { name, color: variable, dash, shown, title } of LINES) {
    const button = at("legend").appendChild(make("button"));
    button.type = "button";
    if (title) button.title = title;
    button.setAttribute("aria-pressed", String(shown));
    const sample = button.appendChild(svg("svg", { viewBox: "0 0 26 10", "aria-hidden": "true" }));
    sample.append(svg("line", { x1: 0, x2: 26, y1: 5, y2: 5, stroke: `var(${variable})`, "stroke-width": 2, "stroke-dasharray": dash.join(" ") }));
    button.append(make("span", "", name), " ", make("strong", "value", "–"));
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      plot?.setSeries(LINES.findIndex((line) => line.name === name) + 1, { show: on });
    });
    buttons.set(name, button);
  }
  for (const [words, points_, isBuy] of [["Bought", "5,0 1,9 9,9", true], ["Sold", "5,9 1,0 9,0", false]]) {
    const key = at("marks").appendChild(make("span", "key"));
    const sample = key.appendChild(svg("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }));
    const variable = isBuy ? "var(--bid)" : "var(--ask)";
    sample.append(svg("polygon", { points: points_, stroke: variable, "stroke-width": 1.2, fill: isBuy ? variable : "none" }));
    key.append(make("span", "", words));
  }
}

export function forgetChart() {
  points = [];
  now = null;
  marks = [];
}

// What is new of a symbol, or all that there is.
export function drawChart(frame, newest, areAll, isLive) {
  if (areAll) forgetChart();
  if (frame.points) points = points.concat(frame.points).slice(-SPAN_S - 5);
  if (frame.marks) marks = marks.concat(frame.marks).filter((mark) => mark[0] > newest - SPAN_S);
  if (frame.prices) texts = frame.prices;
  now = isLive && texts.now && texts.now.some((value) => value !== null) ? [newest, ...texts.now] : null;
  for (const { name, field } of LINES) write(buttons.get(name).querySelector(".value"), texts[field] ?? "–");
  const isDrawn = points.concat(now ? [now] : []).some((point) => point.slice(1).some((value) => value !== null));
  at("plot").classList.toggle("is-empty", !isDrawn);
  if (plot) plot.setData(data());
  else build();
  return isDrawn;
}

export function describeChart(symbol) {
  const said = LINES.filter(({ field }) => texts[field]).map(({ name, field }) => `${name} ${texts[field]}`);
  at("plot").setAttribute("aria-label", `Price of ${symbol} in the last ten minutes. ${said.join(", ")}. ${marks.length} own fills.`);
}

makeLegend();
new ResizeObserver(() => {
  const { clientWidth: width, clientHeight: height } = at("plot");
  if (!plot) build();
  else if (width && height && (width !== plot.width || height !== plot.height)) plot.setSize({ width, height });
}).observe(at("plot"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
