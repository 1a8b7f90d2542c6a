"""The reports: one HTML file each, with all that it needs inside.

```
Result ──▶ figures.py  what charts draw, as plain lists          page/report.css, report.js
   └─────▶ document.py elements, escaped                         uPlot from deltabook.vendored
             │ backtest.py the page of a backtest
             │ grid.py     the page of a sweep: heat map, points page/sweep.js
             │ measures.py statistics as lines of a table
             └ summary.py  what a notebook shows
```

Nothing is fetched, nothing depends on the clock, and equal results give equal bytes.
"""

from deltabook.backtest.report.backtest import write_report
from deltabook.backtest.report.grid import write_sweep_report

__all__ = ["write_report", "write_sweep_report"]
