// The heat map of a sweep over two axes: each cell shows the best of the points that have its two values.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const across = document.getElementById("across");
const down = document.getElementById("down");
const figure = document.getElementById("figure");
const map = document.getElementById("heat");
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 8 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 }); // fits into any cell
const reports = new Set(data.reports);
const MOST = 45; // largest share of colour in percent; above it the figures would be hard to read
const isLow = (field) => field === "max_drawdown" || field === "fees"; // the best value is the lowest

function cell(row, tag, text, name = "") {
  const element = document.createElement(tag);
  element.textContent = text;
  element.className = name;
  if (tag === "th") element.scope = name;
  row.append(element);
  return element;
}

function best(points, field) {
  const low = isLow(field);
  return points.reduce((a, b) => ((low ? b[field] < a[field] : b[field] > a[field]) ? b : a));
}

function draw() {
  const x = Number(across.value);
  const y = Number(down.value);
  const field = figure.value;
  const columns = data.axes[x][1];
  const rows = x === y ? [""] : data.axes[y][1];
  const good = data.points.filter((point) => !point.error);
  const values = good.map((point) => point[field]);
  const most = Math.max(...values.map(Math.abs), 1e-12);
  const top = good.length ? best(good, field) : null;
  map.replaceChildren();
  const head = map.createTHead().insertRow();
  cell(head, "th", x === y ? data.axes[x][0] : `${data.axes[y][0]} ↓ ${data.axes[x][0]} →`, "row");
  for (const value of columns) cell(head, "th", value, "col");
  const body = map.createTBody();
  for (const row of rows) {
    const line = body.insertRow();
    cell(line, "th", row, "row");
    for (const column of columns) {
      const here = data.points.filter((p) => p.values[x] === column && (x === y || p.values[y] === row));
      const fine = here.filter((point) => !point.error);
      if (!fine.length) {
        cell(line, "td", here.length ? "failed" : "–", "cell failed").title = here[0]?.error ?? "no such point";
        continue;
      }
      const point = best(fine, field);
      const text = short.format(point[field]).replace("-", "−");
      const element = cell(line, "td", "", "cell" + (point === top ? " best" : ""));
      const words = point === top ? `★ ${text}` : text;
      if (reports.has(point.number)) {
        const link = element.appendChild(document.createElement("a"));
        link.href = `points/${String(point.number).padStart(5, "0")}.html`;
        link.textContent = words;
      } else element.textContent = words;
      const share = Math.round((Math.abs(point[field]) / most) * MOST);
      const color = field !== "profit" ? "--third" : point[field] < 0 ? "--ask" : "--bid";
      element.style.background = `color-mix(in srgb, var(${color}) ${share}%, var(--card))`;
      const values = data.axes.map(([key], place) => `${key} = ${point.values[place]}`);
      element.title = [...values, `${figure.selectedOptions[0].text} ${number.format(point[field])}`].join("\n");
    }
  }
  const which = data.axes.length > 2 ? `Each field is the point with the ${isLow(field) ? "lowest" : "highest"} figure of those with its two values. ` : "";
  const colors = field === "profit" ? "Blue is a gain, orange with − a loss" : "The stronger the colour, the higher the figure";
  const led = reports.size ? "A field leads to the report of its point. " : "";
  document.getElementById("words").textContent = `${led}${which}★ is the ${isLow(field) ? "lowest" : "highest"} of all. ${colors}; all in ${field === "fills" || field === "orders" ? "numbers" : "ticks × lots"}.`;
  document.body.dataset.state = "drawn";
}

for (const each of [across, down, figure]) each.addEventListener("change", draw);
draw();
