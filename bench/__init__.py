"""Benchmarks: the speed of each part, beside a named reference in the same run.

```
python -m bench [NAME...] ──▶ bench/NAME: run(quick) ──▶ a table, and bench/out/NAME.json
ingest/: formats, epochs, sources, memory            views/: the views, alone and through Spark
engine/: tasks, barriers, state, express lane        exchange/: book, TCP, memory
market/: agents, loaders of recordings               trading/: tick to trade, results, backtests
cluster/: workers and runtimes, a model              strategies/: the tables of docs/strategies.md
flow.py makes feed lines            report.py: records, medians, the machine
processes.py starts child processes that answer in lines of JSON
```
"""

__all__: list[str] = []
