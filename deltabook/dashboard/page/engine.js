// The runtime's figures, each with a sparkline of the last minutes.

import { at, color, grouped, seldom, write } from "./dom.js";

const STARTING = "starting";
const DRAW_MS = 1000;

function figure(id, value, unit = "") {
  const element = at(id);
  const text = value === null || value === undefined ? "–" : `${grouped.format(value)}${unit && ` ${unit}`}`;
  element.dataset.is = text === "–" ? "none" : "there";
  write(element, text);
}

function bytes(id, value) {
  const units = ["B", "KB", "MB", "GB"];
  let place = 0;
  let size = value ?? 0;
  while (size >= 1000 && place < units.length - 1) {
    size /= 1000;
    place++;
  }
  const digits = place && size < 100 ? 1 : 0;
  figure(id, value === null ? null : Number(size.toFixed(digits)), units[place]);
}

// Delays from 100 ms on are shown in whole milliseconds.
function delay(id, value) {
  figure(id, value === null || value === undefined || value < 100 ? value : Math.round(value), "ms");
}

export function drawEngine(engine) {
  for (const name of ["epoch", "step", "live_orders"]) figure(name, engine[name]);
  figure("messages_per_s", engine.messages_per_s === null ? null : Math.round(engine.messages_per_s));
  delay("express_lag_ms", engine.express_lag_ms);
  delay("lag_ms", engine.lag_ms);
  if (engine.spark === STARTING) write(at("lag_ms"), "starting");
  else if (engine.spark === "off") write(at("lag_ms"), "off");
  at("lag_ms").title = engine.spark === STARTING ? "Spark is starting, usually 20 s" : engine.spark_restarts ? `Spark was started again ${engine.spark_restarts} times` : "";
  const barrier = engine.barrier_p50_us;
  write(at("batch-name"), engine.batch_ms === null ? "Barrier, median" : "Batch, Spark");
  delay("batch", engine.batch_ms ?? (barrier === null ? null : Math.round(barrier / 100) / 10));
  bytes("memory_bytes", engine.memory_bytes);
  bytes("waiting_bytes", engine.waiting_bytes);
}

let rows = [];

const redraw = seldom(DRAW_MS, () => {
  const stroke = color("--focus");
  for (const canvas of document.querySelectorAll("canvas[data-figure]")) {
    const values = rows.map((row) => row[Number(canvas.dataset.figure)]);
    const { clientWidth: width, clientHeight: height } = canvas;
    if (!width || !height) continue;
    canvas.width = width * devicePixelRatio;
    canvas.height = height * devicePixelRatio;
    const ctx = canvas.getContext("2d");
    ctx.scale(devicePixelRatio, devicePixelRatio);
    const known = values.filter((value) => value !== null);
    if (known.length < 2) continue;
    const least = Math.min(...known);
    const size = Math.max(...known) - least || 1;
    ctx.strokeStyle = stroke;
    ctx.lineWidth = 1.25;
    ctx.beginPath();
    let isDown = false;
    values.forEach((value, place) => {
      if (value === null) {
        isDown = false;
        return;
      }
      const x = (place / Math.max(1, values.length - 1)) * (width - 2) + 1;
      const y = height - 2 - ((value - least) / size) * (height - 4);
      if (isDown) ctx.lineTo(x, y);
      else ctx.moveTo(x, y);
      isDown = true;
    });
    ctx.stroke();
  }
});

export function drawSparklines(figures) {
  rows = figures;
  redraw();
}

new ResizeObserver(redraw).observe(document.querySelector(".engine"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
