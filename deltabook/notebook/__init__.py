"""Functions that `import deltabook` offers a notebook or a script: backtests, simulations, sweeps and replays.

```
run_backtest ─┬─ options.py ─▶ BacktestConfig ─▶ Backtest ─▶ Result: tables, statistics, plot
sweep ────────┤                             └──▶ Sweep, in processes or on Spark ─▶ SweepResult
replay ───────┤              ─▶ Replay ─▶ Epoch
simulate ─────┘              ─▶ SimulationConfig ─▶ Simulation ─▶ Result
calls.py
```

Everything runs in the calling thread; no reactor is started, so that a call can be repeated in one process. Inputs are
checked before anything runs: errors are a `BacktestError`, or an `AlgoError` for strategies and their parameters.
"""

from deltabook.notebook.calls import replay, run_backtest, simulate, sweep, sweep_simulations
from deltabook.notebook.options import BacktestOptions

__all__ = ["BacktestOptions", "replay", "run_backtest", "simulate", "sweep", "sweep_simulations"]
