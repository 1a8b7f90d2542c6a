// The lists of views and of strategies, and the dialog of one strategy.

import { at, drawMoney, drawTable, grouped, make, makeTabs, rowsFor, signed, write } from "./dom.js";

const STATES = {
  waiting: "○ waiting",
  running: "● running",
  suspended: "▮▮ suspended",
  killed: "■ killed",
  failed: "✕ failed",
  stopped: "□ stopped",
};
const SIDES = { B: "▲ Buy", S: "▽ Sell" };

// -- lists ----------------------------------------------------------------------------------------------------

function namedRow(row, columns, open) {
  const button = row.insertCell().appendChild(make("button", "row-button"));
  button.type = "button";
  for (let column = 1; column < columns; column++) row.insertCell();
  row.addEventListener("click", () => open(button.textContent));
}

function chip(cell, state, words) {
  if (!cell.firstElementChild) cell.replaceChildren(make("span", "chip"));  // replaces text
  const element = cell.firstElementChild;
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
    kind.title = view.failed ?? (view.comparison === "differs" ? "Spark has other rows, and its rows are the rows of record." : "");
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
    const positions = line.positions.filter(([, amount]) => !/^-?[0.]+$/.test(amount));
    write(position, positions.length === 0 ? "flat" : positions.length === 1 ? `${positions[0][1].replace("-", "−")} ${positions[0][0]}` : `${positions.length} symbols`);
    position.title = positions.map(([symbol, amount]) => `${amount} ${symbol}`).join(", ");
    drawMoney(profit, line.profit);
    write(orders, grouped.format(line.orders_open));
    write(sent, grouped.format(line.orders_sent));
    write(fills, grouped.format(line.fills));
  });
}

// -- one strategy --------------------------------------------------------------------------------------------

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.querySelector(".close").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}
makeTabs(document.querySelector("#strategy-dialog [role=tablist]"));

export function openStrategy(name) {
  write(at("strategy-name"), name);
  at("strategy-dialog").showModal();
}

export function drawStrategy(line, traits, orders, fills) {
  if (!line || !traits) {
    write(at("strategy-state"), "This strategy no longer runs.");
    write(at("strategy-link"), "");
    return;
  }
  const link = line.is_connected ? "logged in to the exchange" : "not logged in to the exchange";
  const reason = line.reason ? `: ${line.reason}` : "";
  at("strategy-state").dataset.state = line.state;
  write(at("strategy-state"), `${STATES[line.state] ?? line.state}${reason}`);
  write(at("strategy-link"), `. Broker ${traits.broker_id}, ${link}. Reads ${traits.views.join(", ") || "no view"}.`);
  const figures = [
    ["P&L", line.profit, true], ["Realised", line.realised, true], ["Unrealised", line.unrealised, true], ["Fees", line.fees],
    ["Orders sent", line.orders_sent], ["Filled", line.orders_filled], ["Open", line.orders_open],
    ["Rejected", line.orders_rejected], ["Over limits", line.orders_refused], ["Fills", line.fills],
  ];
  const list = at("strategy-figures");
  while (list.children.length < figures.length) list.appendChild(make("div")).append(make("dt"), make("dd"));
  figures.forEach(([words, value, isMoney], place) => {
    const [term, figure] = list.children[place].children;
    write(term, words);
    if (isMoney) drawMoney(figure, value);
    else write(figure, typeof value === "number" ? grouped.format(value) : value);
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
    orders ? "It has sent no order yet." : "Waiting for its orders",
  );
  drawTable(
    at("fills"),
    (fills ?? []).map(([, time, symbol, side, quantity, price, liquidity, fee]) => [time, symbol, SIDES[side], price, quantity, fee, liquidity]),
    ["", "text", "text", "", "", "", "text"],
    fills ? "It has not traded yet." : "Waiting for its fills",
  );
  drawTable(at("parameters"), Object.entries(traits.parameters), ["text", "text"], "It has no parameters.");
}
