// The heat map of a sweep: two axes across and down, the best of all others in each field.
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const across = document.getElementById("across");
const down = document.getElementById("down");
const figure = document.getElementById("figure");
const map = document.getElementById("heat");
const number = new Intl.NumberFormat("en", { maximumFractionDigits: 8 });
const cell = (text, name = "") => {
  const element = document.createElement("div");
  element.textContent = text;
  element.className = name;
  map.append(element);
  return element;
};

function best(points, field) {
  const low = field === "max_drawdown" || field === "fees";
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
  map.style.gridTemplateColumns = `repeat(${columns.length + 1}, auto)`;
  cell(x === y ? data.axes[x][0] : `${data.axes[y][0]} ↓ ${data.axes[x][0]} →`, "quiet");
  for (const value of columns) cell(value, "quiet");
  for (const row of rows) {
    cell(row, "quiet");
    for (const column of columns) {
      const here = data.points.filter((p) => p.values[x] === column && (x === y || p.values[y] === row));
      const fine = here.filter((point) => !point.error);
      if (!fine.length) {
        cell("failed", "cell failed").title = here[0]?.error ?? "no such point";
        continue;
      }
      const found = best(fine, field);
      const element = cell(number.format(found[field]), "cell" + (found === top ? " best" : ""));
      const share = Math.round((Math.abs(found[field]) / most) * 60);
      element.style.background = `color-mix(in srgb, var(${found[field] < 0 ? "--ask" : "--bid"}) ${share}%, var(--card))`;
      element.title = data.axes.map(([key], place) => `${key} = ${found.values[place]}`).join("\n");
    }
  }
  document.body.dataset.state = "drawn";
}

for (const each of [across, down, figure]) each.addEventListener("change", draw);
draw();
