// The sections of frames: values, lists of rows by place, and series of rows by key.

// Greatest number of rows of each series, by name.
const SERIES = {
  bars_1s: 960, bars_1m: 1440, lines_1s: 960, lines_1m: 1440, depth: 450, marks: 2000,
  money_1s: 960, money_1m: 1440, figures: 180, gaps: 100, tape: 30,
};
const LISTS = new Set(["symbols", "views", "strategies", "bids", "asks"]);

// Rows in ascending order of their first element; mostly the last ones change.
class Series {
  constructor(most) {
    this.most = most;
    this.rows = [];
  }

  put(row) {
    let place = this.rows.length;
    while (place && this.rows[place - 1][0] > row[0]) place--;
    if (place && this.rows[place - 1][0] === row[0]) this.rows[place - 1] = row;
    else this.rows.splice(place, 0, row);
  }

  enter({ all, rows }) {
    if (all) this.rows = [];
    for (const row of rows) this.put(row);
    if (this.rows.length > this.most) this.rows.splice(0, this.rows.length - this.most);
  }
}

export class Sections {
  constructor() {
    this.values = {};
    this.lists = {};
    this.series = {};
  }

  // Enter the changes that a frame has; return the names of the sections that changed.
  enter(part) {
    const changed = new Set();
    for (const [name, value] of Object.entries(part)) {
      changed.add(name);
      if (name in SERIES) (this.series[name] ??= new Series(SERIES[name])).enter(value);
      else if (LISTS.has(name)) {
        const list = (this.lists[name] ??= []);
        list.length = value.count;
        for (const [place, row] of value.rows) list[place] = row;
      } else this.values[name] = value;
    }
    return changed;
  }

  list(name) {
    return this.lists[name] ?? [];
  }

  rows(name) {
    return this.series[name]?.rows ?? [];
  }
}
