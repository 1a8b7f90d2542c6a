"""Deltabook: a simulated exchange, SQL views of its order books that are kept exactly up to date, and trading
strategies that subscribe to these views.

```
cli ──▶ demo ──starts──▶ exchange_server ──feed──▶ runtime ──view changes──▶ algo_engine ──orders──▶ exchange_server
 ├────▶ dashboard: all of them in a browser
 ├────▶ backtest: recorded flow, the market, views and strategies in one process, and sweeps of it
 ├────▶ simulation: the same with background agents in place of recorded flow; gym: learning environments on it
 ├────▶ audit, backup, repair: checks, copies and repairs of folders        facts: figures of a market
 └────▶ cluster: the processes of Spark's standalone cluster
notebook ──▶ backtest, simulation, runtime.client: the functions that this module offers
wire: the message types that these parts share
```

This package is the composition root: it may import every other package; the others import only `deltabook.wire`
from it.

For notebooks and scripts, this module offers `run_backtest`, `sweep` and `replay` for recordings, `simulate` and
`sweep_simulations`, `connect` to a running runtime, the parts of a strategy, and the errors. Each of these names is
imported at its first use, because every process imports this module together with `deltabook.wire`, and most processes
need no backtest. See docs/python.md.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from algo_engine import (
        AlgoError,
        Context,
        EventKind,
        NoParameters,
        OrderEvent,
        OrderOptions,
        Side,
        Strategy,
        ViewChange,
    )
    from deltabook.backtest import BacktestError, DataFile, Result
    from deltabook.backtest.replaying import Epoch, Replay, ViewDelta
    from deltabook.backtest.statistics import Measures, Statistics
    from deltabook.backtest.sweep import SweepResult
    from deltabook.notebook import replay, run_backtest, simulate, sweep, sweep_simulations
    from runtime.client import ClientError, connect

__version__ = "0.2.0"

__all__ = [
    "AlgoError",
    "BacktestError",
    "ClientError",
    "Context",
    "DataFile",
    "Epoch",
    "EventKind",
    "Measures",
    "NoParameters",
    "OrderEvent",
    "OrderOptions",
    "Replay",
    "Result",
    "Side",
    "Statistics",
    "Strategy",
    "SweepResult",
    "ViewChange",
    "ViewDelta",
    "__version__",
    "connect",
    "replay",
    "run_backtest",
    "simulate",
    "sweep",
    "sweep_simulations",
]

_ORIGINS = {
    "algo_engine": ("AlgoError", "Context", "EventKind", "NoParameters", "OrderEvent", "OrderOptions", "Side",
                    "Strategy", "ViewChange"),
    "deltabook.backtest": ("BacktestError", "DataFile", "Result"),
    "deltabook.backtest.replaying": ("Epoch", "Replay", "ViewDelta"),
    "deltabook.backtest.statistics": ("Measures", "Statistics"),
    "deltabook.backtest.sweep": ("SweepResult",),
    "deltabook.notebook": ("replay", "run_backtest", "simulate", "sweep", "sweep_simulations"),
    "runtime.client": ("ClientError", "connect"),
}  # fmt: skip


def __getattr__(name: str) -> Any:
    for module, names in _ORIGINS.items():
        if name in names:
            value = globals()[name] = getattr(_import_module(module), name)
            return value
    raise AttributeError(f"expected one of {', '.join(__all__)} in deltabook, was {name}")


def __dir__() -> list[str]:
    return sorted(__all__)
