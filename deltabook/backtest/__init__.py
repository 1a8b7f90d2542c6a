"""Backtests: recorded flow, the exchange's market, the express lane's views and the algorithm engine on a simulated
clock.

```
config.py ──▶ backtest.py puts the parts together ──▶ result.py  the result: tables, statistics, pictures, files
                │                                       ├ run_data.py      figures, curves, orders, trades
                │                                       ├ tables.py        the same as Arrow tables and for charts
                │                                       ├ measuring.py     return, risk, hit rate, turnover, exposure
                │                                       ├ statistics.py    these measures, and their rows on pages
                │                                       ├ report.py        HTML, of elements in presentation.py
                │                                       └ plotting.py      pictures, by matplotlib
                │ flow.py        recorded files as one stream                 inspection.py
                │ hosting.py     hosts, engines and connections of strategies on a simulated clock
                │ simulation.py  the loop: records and own orders in, answers and deltas out      clock.py
                ├ deltas.py      the market's events as deltas of the relations
                ├ views.py       the views, tuple by tuple                                        latency.py
                └ recorder.py    samples, fills and orders of the run
sweep.py        one backtest for each point of a grid, in processes or over Spark     grid.py   pickling.py
native_loop.py  records, books and views in one compiled loop     native_books.py
replaying.py    flow, market and views without strategies, epoch by epoch
```

The market is `exchange_server.matching.Market`, so queue positions are exact. The views are maintained by the express
lane, as in a live runtime. The engine, the hosts and the desks are those of live trading, and send the same bytes.
docs/backtest.md shows how to use it.
"""

from deltabook.backtest.backtest import Backtest
from deltabook.backtest.config import BacktestConfig, DataFile
from deltabook.backtest.errors import (
    BacktestError,
    ConfigurationError,
    EpochPassedError,
    PlottingError,
    SweepError,
)
from deltabook.backtest.result import Result, StrategyStopped
from deltabook.backtest.run_data import Figures, StrategyFigures

__all__ = [
    "Backtest",
    "BacktestConfig",
    "BacktestError",
    "ConfigurationError",
    "DataFile",
    "EpochPassedError",
    "Figures",
    "PlottingError",
    "Result",
    "StrategyFigures",
    "StrategyStopped",
    "SweepError",
]
