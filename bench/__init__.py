"""Benchmarks: the speed of each part, beside a named reference in the same run.

```
python -m bench [NAME...] ──▶ bench/NAME: run(quick) ──▶ a table, and bench/out/NAME.json
ingest/: formats, epochs, sources, memory            views/: the views, alone and through Spark
flow.py makes feed lines            report.py: records, medians, the machine
```
"""

__all__: list[str] = []
