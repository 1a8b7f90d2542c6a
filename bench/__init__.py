"""Benchmarks: how fast the parts are, each against a named reference in the same run.

```
python -m bench [NAME...] ──▶ bench/NAME.py: run(quick) ──▶ a table, and bench/out/NAME.json
flow.py makes the input      report.py: records, medians, the machine
```
"""

__all__: list[str] = []
