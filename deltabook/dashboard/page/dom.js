// Helpers for the document. An element whose text is unchanged is not written.

export const at = (id) => document.getElementById(id);
export const grouped = new Intl.NumberFormat("en-US");

export function write(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text) element.textContent = text;
  return element;
}

// Give a table body this number of rows and return them; present rows stay, and so does the focus in them.
export function rowsFor(body, count, makeRow) {
  while (body.rows.length > count) body.deleteRow(-1);
  while (body.rows.length < count) makeRow(body.insertRow());
  return body.rows;
}

// Draw lines of text as rows; `classes` has the class of each column, and `none` the words of an empty table.
export function drawTable(body, lines, classes = [], none = "") {
  const width = lines.length ? lines[0].length : 1;
  if (!lines.length) {
    if (body.dataset.none !== none || body.rows.length !== 1) {
      body.replaceChildren();
      const cell = body.insertRow().insertCell();
      cell.className = "none";
      cell.colSpan = 20;
      cell.textContent = none;
      body.dataset.none = none;
    }
    return body.rows;
  }
  if ("none" in body.dataset || body.dataset.width !== String(width)) {
    body.replaceChildren();
    delete body.dataset.none;
    body.dataset.width = String(width);
  }
  const rows = rowsFor(body, lines.length, (row) => {
    for (let column = 0; column < width; column++) row.insertCell().className = classes[column] ?? "";
  });
  lines.forEach((line, place) => {
    const cells = rows[place].cells;
    for (let column = 0; column < width; column++) {
      const value = line[column];
      write(cells[column], value ?? "NULL");
      cells[column].classList.toggle("null", value === null);
    }
  });
  return rows;
}

const signOf = (text) => (!text || /^-?[0.,]+$/.test(text) ? 0 : text.startsWith("-") ? -1 : 1);

export function signed(text) {
  return signOf(text) > 0 ? `+${text}` : text.replace("-", "−");
}

// Write money with its sign as in "+12.30" or "−4.10", and mark a gain or a loss.
export function drawMoney(element, text) {
  const sign = signOf(text);
  write(element, text ? signed(text) : "–");
  element.classList.toggle("gain", sign > 0);
  element.classList.toggle("loss", sign < 0);
}

export function clock(ms) {
  return new Date(ms).toISOString().slice(11, 19);
}

const DAY_S = 86400;

// Return the date of a market time; empty if the feed counts its times from midnight.
export function day(seconds) {
  return seconds < DAY_S ? "" : new Date(seconds * 1000).toISOString().slice(0, 10);
}

export const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Multiply whole ticks or lots, given as a number or text, by the worth of one: exact, with all decimals of the worth.
export function times(count, size) {
  const [whole, decimals = ""] = size.split(".");
  const product = BigInt(count) * BigInt(whole + decimals);
  const digits = String(product < 0n ? -product : product).padStart(decimals.length + 1, "0");
  const point = digits.length - decimals.length;
  return `${product < 0n ? "-" : ""}${digits.slice(0, point)}${decimals && `.${digits.slice(point)}`}`;
}

// Return a function that calls `act` in an animation frame, at most once in this number of milliseconds; a call that
// comes too early is delayed.
export function seldom(milliseconds, act) {
  let last = -Infinity;
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    const run = () =>
      requestAnimationFrame(() => {
        waits = false;
        last = performance.now();
        act();
      });
    const rest = last + milliseconds - performance.now();
    if (rest > 0) setTimeout(run, rest);
    else run();
  };
}

// Make a list of tabs work by clicks and by the arrow keys.
export function makeTabs(list) {
  const tabs = [...list.querySelectorAll("[role=tab]")];
  const choose = (chosen) => {
    for (const tab of tabs) {
      const on = tab === chosen;
      tab.setAttribute("aria-selected", String(on));
      tab.tabIndex = on ? 0 : -1;
      at(tab.getAttribute("aria-controls")).hidden = !on;
    }
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab);
  });
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
    event.preventDefault();
  });
}
