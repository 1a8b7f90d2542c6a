/* global uPlot */
// The profit of all strategies with its curve, their exposure, and the last price of the symbol.

import { at, clock, color, drawMoney, grouped, seldom, signed, write } from "./dom.js";

const DRAW_MS = 1000;
const FINE_S = 900;

let all = null;
let nowS = 0;
let rangeS = 300;
let strategy = "";
let plot = null;

export function drawMoneyTiles(money) {
  drawMoney(at("profit"), money?.profit);
  drawMoney(at("realised"), money?.realised);
  drawMoney(at("unrealised"), money?.unrealised);
  write(at("fees"), money?.fees.replace("-", "−") ?? "–");
  write(at("gross"), money?.gross ?? "–");
  write(at("net"), money ? signed(money.net) : "–");
  const unmarked = money?.unmarked ?? 0;
  at("gross").title = at("net").title = unmarked ? `Without ${unmarked} positions in symbols without a quote` : "";
}

export function drawLast(name, prices) {
  write(at("price-of"), `${name || "Symbol"}: last price`);
  write(at("last"), prices?.last ?? "–");
  const change = prices?.change ?? null;
  const sign = change === null ? 0 : change.startsWith("-") ? -1 : /^[0.]+$/.test(change) ? 0 : 1;
  const percent = change === null ? "" : ` (${signed(prices.change_percent)} %)`;
  write(at("change"), change === null ? "" : `${sign > 0 ? "↑ " : sign < 0 ? "↓ " : ""}${signed(change)}${percent} since ${clock(prices.since_s * 1000).slice(0, 5)}`);
  at("change").className = sign > 0 ? "up" : sign < 0 ? "down" : "";
}

function points() {
  const traits = all.values.traits ?? [];
  const place = traits.findIndex(({ name }) => name === strategy);
  const first = all.rows("money_1m")[1]?.[0] ?? all.rows("money_1s")[0]?.[0] ?? nowS;
  const span = Math.max(60, Math.min(rangeS || Infinity, nowS - Math.min(first, all.rows("money_1s")[0]?.[0] ?? nowS)));
  const rows = all.rows(span > FINE_S ? "money_1m" : "money_1s").filter(([time]) => time >= nowS - span);
  const values = rows.map(([, total, each]) => (place < 0 ? total : each[place]));
  return { span, data: [rows.map(([time]) => time), values] };
}

function options(width, height) {
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, \"DejaVu Sans\", sans-serif" };
  return {
    width,
    height,
    legend: { show: false },
    padding: [6, 6, 4, 0],
    cursor: { drag: { x: false, y: false }, points: { size: 5 }, sync: { key: "market" } },
    scales: {
      x: { time: true, range: () => [nowS - points().span, Math.max(nowS, 1)] },
      y: { range: (_, least, most) => (least === null ? [-1, 1] : [least - Math.max(0.01, (most - least) * 0.12), most + Math.max(0.01, (most - least) * 0.12)]) },
    },
    axes: [
      { show: false },
      { ...axis, space: 18, values: (_, splits) => splits.map((value) => grouped.format(value).replace("-", "−")), size: (_, values) => 12 + 6.6 * Math.max(2, ...(values ?? [""]).map((value) => value.length)) },
    ],
    series: [{}, { label: "P&L", stroke: color("--focus"), width: 1.75, points: { show: false }, spanGaps: true }],
    hooks: { setCursor: [readOut] },
  };
}

function readOut(chart) {
  const whose = strategy ? `P&L of ${strategy}` : "P&L of all strategies";
  const { idx } = chart.cursor;
  const value = idx === null || idx === undefined ? null : chart.data[1][idx];
  const at_ = value === null || value === undefined ? "" : `: ${signed(value.toFixed(2))} at ${clock(chart.data[0][idx] * 1000)}`;
  write(at("curve-words"), whose + at_);
}

function build() {
  const { clientWidth, clientHeight } = at("curve");
  if (!all || !clientWidth || !clientHeight) return;
  plot?.destroy();
  plot = new uPlot(options(clientWidth, clientHeight), points().data, at("curve"));
}

const redraw = seldom(DRAW_MS, () => {
  if (!all) return;
  if (!plot) build();
  else plot.setData(points().data);
  if (plot) readOut(plot);
});

export function setCurve(range, name) {
  rangeS = range;
  strategy = name;
  redraw();
}

// Draw the curve of profit; return true if there is one.
export function drawCurve(sections, market) {
  all = sections;
  nowS = market;
  redraw();
  return sections.rows("money_1s").length > 0;
}

new ResizeObserver(() => {
  const { clientWidth: width, clientHeight: height } = at("curve");
  if (plot && width && height && (width !== plot.width || height !== plot.height)) plot.setSize({ width, height });
  else if (!plot) build();
}).observe(at("curve"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", build);
