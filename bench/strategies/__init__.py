"""Results of the built-in strategies on recorded markets: the tables and plots of docs/strategies.md.

``python -m bench.strategies`` plays every case, writes the plots, and puts the tables into their places.

```
cases.py     strategies and their parameters
playing.py   one case as a backtest
tables.py    results as rows       drawing.py  results as plots
```
"""
