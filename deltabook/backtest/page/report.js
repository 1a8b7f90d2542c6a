// The charts of a report; everything else is in the page already. Nothing is fetched.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const css = getComputedStyle(document.documentElement);
const color = (name) => css.getPropertyValue(name).trim();
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 8 });
const words = (value) => (value == null ? "–" : number.format(value).replace("-", "−"));
const COLORS = ["--bid", "--ask", "--third", "--text"];
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const charts = [];
const sync = uPlot.sync("report");

// The style of a line's sample in the legend.
const stroke = (dash) => (!dash?.length ? "solid" : dash[0] < 4 ? "dotted" : "dashed");

// The latest value, which a legend shows while the pointer is over no chart.
const last = (values) => values.findLast((value) => value != null);

function series(label, place, extra = {}) {
  const stroke = color(COLORS[place % COLORS.length]);
  return { label, stroke, width: 1.5, dash: DASHES[place % DASHES.length], points: { show: false }, value: (plot, v, at, index) => words(index == null ? last(plot.data[at]) : v), ...extra };
}

function moments(plot, times) {
  const [from, to] = [plot.scales.x.min, plot.scales.x.max];
  const [begin, end] = to - from > 172800 ? [5, 16] : to - from > 7200 ? [11, 16] : [11, to - from < 5 ? 23 : 19];
  return times.map((time) => new Date(time * 1e3).toISOString().slice(begin, end).replace("T", " "));
}

// The labels of an axis, all with as many decimals as its steps need.
function heights(_, values, __, ___, step) {
  let digits = 0;
  while (digits < 8 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6) digits++;
  const fixed = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return values.map((value) => fixed.format(value).replace("-", "−"));
}

const width = (_, values) => 20 + 7.2 * Math.max(4, ...(values ?? []).map((value) => value.length));

function chart(id, columns, lines, extra = {}) {
  const target = document.getElementById(id);
  const axis = { stroke: color("--quiet"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
  const size = () => ({ width: target.clientWidth, height: target.clientHeight - (target.querySelector(".u-legend")?.offsetHeight || 28) });
  const options = {
    ...size(),
    legend: { markers: { dash: (each, at) => stroke(each.series[at].dash) } },
    cursor: { sync: { key: sync.key } },
    padding: [8, 30, 0, 0],
    axes: [{ ...axis, space: 80, size: 30, values: moments }, { ...axis, size: width, values: heights }],
    series: [{ label: "UTC", value: (plot, v, at, index) => new Date((index == null ? last(plot.data[at]) : v) * 1e3).toISOString().slice(11, 23) }, ...lines],
    ...extra,
  };
  const plot = new uPlot(options, columns, target);
  plot.setSize(size());
  charts.push([plot, size]);
  return plot;
}

function fills(symbol, strategies) {
  return {
    hooks: {
      draw: [
        (plot) => {
          const context = plot.ctx;
          const ratio = devicePixelRatio;
          const { left, top, width, height } = plot.bbox;
          context.save();
          context.beginPath();
          context.rect(left, top, width, height);
          context.clip();
          for (const [time, price, side, strategy] of data.fills[symbol] || []) {
            if (strategies && !strategies.includes(strategy)) continue;
            const x = plot.valToPos(time, "x", true);
            const y = plot.valToPos(price, "y", true);
            const way = side === "B" ? 1 : -1;
            context.beginPath();
            context.moveTo(x, y);
            context.lineTo(x - 4.5 * ratio, y + way * 8 * ratio);
            context.lineTo(x + 4.5 * ratio, y + way * 8 * ratio);
            context.closePath();
            context.fillStyle = side === "B" ? color("--bid") : color("--card");
            context.strokeStyle = side === "B" ? color("--bid") : color("--ask");
            context.lineWidth = 1.5 * ratio;
            context.fill();
            context.stroke();
          }
          context.restore();
        },
      ],
    },
  };
}

const names = data.strategies;
chart("profit", [data.time, ...data.profit], data.profit.map((_, n) => series(names[n] ?? "all", n)));
chart("drawdown", [data.time, data.drawdown], [series("drawdown", 1, { fill: color("--ask") + "33" })]);

let prices = null;
let positions = null;
const choice = document.getElementById("symbol");
function show(symbol) {
  for (const plot of [prices, positions]) {
    if (!plot) continue;
    charts.splice(charts.findIndex(([each]) => each === plot), 1);
    plot.destroy();
  }
  const { bid, ask, position } = data.symbols[symbol];
  prices = chart("price", [data.time, bid, ask], [series("best bid", 0, { width: 1 }), series("best ask", 1, { width: 1, dash: [] })], fills(symbol));
  positions = chart("position", [data.time, ...position], position.map((_, n) => series(names[n], n, { paths: uPlot.paths.stepped({ align: 1 }) })));
}
choice.addEventListener("change", () => show(choice.value));
show(choice.value);

new ResizeObserver(() => charts.forEach(([plot, size]) => plot.setSize(size()))).observe(document.querySelector("main"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => location.reload());
document.body.dataset.state = "drawn";
