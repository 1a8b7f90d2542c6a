// What everybody sees whatever the symbol: the engine, the views, the strategies, and both in full when one is chosen.

import { at, drawMoney, drawTable, grouped, make, makeTabs, rowsFor, signed, write } from "./dom.js";

const STATES = {
  waiting: "○ waiting",
  running: "● running",
  suspended: "▮▮ suspended",
  killed: "■ killed",
  failed: "✕ failed",
  stopped: "□ stopped",
};
const SIDES = { B: "▲ Buy", S: "▼ Sell" };

// -- figures --------------------------------------------------------------------------------------------------

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

// Digits that nobody reads are left out: tenths matter below a tenth of a second.
function delay(id, value) {
  figure(id, value === null || value === undefined || value < 100 ? value : Math.round(value), "ms");
}

export function drawEngine(engine) {
  for (const name of ["epoch", "step", "live_orders"]) figure(name, engine[name]);
  figure("messages_per_s", engine.messages_per_s === null ? null : Math.round(engine.messages_per_s));
  delay("express_lag_ms", engine.express_lag_ms);
  if (engine.spark === "starting") write(at("lag_ms"), "starting: 20 s");
  else delay("lag_ms", engine.lag_ms);
  const barrier = engine.barrier_p50_us;
  write(at("batch-name"), engine.batch_ms === null ? "Barrier, median" : "Batch, Spark");
  delay("batch", engine.batch_ms ?? (barrier === null ? null : Math.round(barrier / 100) / 10));
  bytes("memory_bytes", engine.memory_bytes);
  bytes("waiting_bytes", engine.waiting_bytes);
}

export function drawProfit(strategies) {
  drawMoney(at("profit"), strategies?.profit);
}

// -- lists ----------------------------------------------------------------------------------------------------

function namedRow(row, columns, open) {
  const button = row.insertCell().appendChild(make("button", "row-button"));
  button.type = "button";
  for (let column = 1; column < columns; column++) row.insertCell();
  row.addEventListener("click", () => open(button.textContent));
}

function chip(cell, state, words) {
  const element = cell.firstElementChild ?? cell.appendChild(make("span", "chip"));
  element.dataset.state = state;
  write(element, words);
}

export function drawViews(views, open) {
  const rows = rowsFor(at("views"), views.length, (row) => namedRow(row, 5, open));
  views.forEach((view, place) => {
    const [name, lane, kind, count, version] = rows[place].cells;
    write(name.firstChild, view.name);
    write(lane, view.lane);
    if (view.failed) chip(kind, "failed", "✕ failed");
    else if (view.comparison === "differs") chip(kind, "failed", "✕ differs from Spark");
    else {
      kind.firstElementChild?.remove();
      write(kind, view.class);
    }
    kind.title = view.failed ?? (view.comparison === "differs" ? "Spark, whose answer is the one of record, has other rows." : "");
    write(count, grouped.format(view.rows));
    write(version, grouped.format(view.version));
  });
}

export function drawStrategies(strategies, open) {
  const rows = rowsFor(at("strategies"), strategies.length, (row) => namedRow(row, 7, open));
  strategies.forEach((line, place) => {
    const [name, state, position, profit, orders, sent, fills] = rows[place].cells;
    write(name.firstChild, line.name);
    chip(state, line.state, STATES[line.state] ?? line.state);
    state.title = line.reason;
    const held = line.positions.filter(([, amount]) => !/^-?[0.]+$/.test(amount));
    write(position, held.length === 0 ? "flat" : held.length === 1 ? `${held[0][1].replace("-", "−")} ${held[0][0]}` : `${held.length} symbols`);
    position.title = held.map(([symbol, amount]) => `${amount} ${symbol}`).join(", ");
    drawMoney(profit, line.profit);
    write(orders, grouped.format(line.orders_open));
    write(sent, grouped.format(line.orders_sent));
    write(fills, grouped.format(line.fills));
  });
}

// -- one of them in full --------------------------------------------------------------------------------------

for (const dialog of document.querySelectorAll("dialog")) {
  makeTabs(dialog.querySelector("[role=tablist]"));
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}

export function openView(name) {
  write(at("view-name"), name);
  drawView(null);
  at("view-dialog").showModal();
}

export function drawView(about) {
  const look = about?.look;
  const version = look && (look.step ? `step ${grouped.format(look.step)}` : `epoch ${grouped.format(look.epoch)}`);
  const shown = look && look.rows.length < look.total ? `, the first ${grouped.format(look.rows.length)} are shown` : "";
  const count = look ? `${grouped.format(look.total)} row${look.total === 1 ? "" : "s"} at ${version}${shown}` : "Asking the runtime";
  write(at("view-about"), about ? `Class ${about.class}, because: ${about.reason}. Kept by the ${about.lane} lane.` : "");
  write(at("view-count"), look?.problem ? `✕ The runtime says: ${look.problem}` : count);
  write(at("view-sql"), about ? about.sql || "This runtime does not tell the SQL of its views." : "");
  write(at("view-explain"), look?.explain ?? "");
  const columns = look?.columns ?? [];
  const head = at("view-columns");
  const isText = columns.map((_, column) => (look.rows.some((row) => row[column] !== null && !/^-?[\d.e+]+$/.test(row[column])) ? "text" : ""));
  if ([...head.cells].map((cell) => cell.textContent).join() !== columns.join()) {
    head.replaceChildren(...columns.map((column) => Object.assign(make("th", "", column), { scope: "col" })));
  }
  [...head.cells].forEach((cell, column) => cell.classList.toggle("text", isText[column] === "text"));
  drawTable(at("view-rows"), look?.rows ?? [], isText, look ? "The view has no rows." : "");
}

export function openStrategy(name) {
  write(at("strategy-name"), name);
  at("strategy-dialog").showModal();
}

export function drawStrategy(line, orders, fills) {
  if (!line) {
    write(at("strategy-state"), "This strategy runs no more.");
    write(at("strategy-link"), "");
    return;
  }
  const link = line.is_connected ? "logged in to the exchange" : "not logged in to the exchange";
  const reason = line.reason ? `: ${line.reason}` : "";
  at("strategy-state").dataset.state = line.state;
  write(at("strategy-state"), `${STATES[line.state] ?? line.state}${reason}`);
  write(at("strategy-link"), `. Broker ${line.broker_id}, ${link}. Reads ${line.views.join(", ") || "no view"}.`);
  const figures = [
    ["P&L", line.profit, true], ["Realised", line.realised, true], ["Unrealised", line.unrealised, true], ["Fees", line.fees],
    ["Orders sent", line.orders_sent], ["Filled", line.orders_filled], ["Open", line.orders_open],
    ["Rejected", line.orders_rejected], ["Over limits", line.orders_refused], ["Fills", line.fills],
  ];
  const list = at("strategy-figures");
  while (list.children.length < figures.length) list.appendChild(make("div")).append(make("dt"), make("dd"));
  figures.forEach(([words, value, isMoney], place) => {
    const [term, said] = list.children[place].children;
    write(term, words);
    if (isMoney) drawMoney(said, value);
    else write(said, typeof value === "number" ? grouped.format(value) : value);
  });
  drawTable(
    at("positions"),
    line.positions.map(([symbol, amount, mark, realised, unrealised, fees]) => [symbol, amount.replace("-", "−"), mark, signed(realised), signed(unrealised), fees.replace("-", "−")]),
    [],
    "It has not traded yet.",
  );
  drawTable(
    at("orders"),
    (orders ?? []).map(([id, symbol, side, quantity, filled, price, status, why]) => [String(id), symbol, SIDES[side], price || "market", quantity, filled, `${status.replaceAll("_", " ")}${why ? `: ${why}` : ""}`]),
    ["", "text", "text", "", "", "", "text"],
    orders ? "It has sent no order yet." : "Asking for its orders",
  );
  drawTable(
    at("fills"),
    (fills ?? []).map(([, time, symbol, side, quantity, price, liquidity, fee]) => [time, symbol, SIDES[side], price, quantity, fee, liquidity]),
    ["", "text", "text", "", "", "", "text"],
    fills ? "It has not traded yet." : "Asking for its fills",
  );
  drawTable(at("parameters"), Object.entries(line.parameters), ["text", "text"], "It has no parameters.");
}
