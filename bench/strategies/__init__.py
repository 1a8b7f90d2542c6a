"""Results of the built-in strategies on recorded markets: the tables and plots of docs/strategies.md.

``python -m bench.strategies`` plays every case, writes the plots, and puts the tables into their places.

```
cases.py     what is played against what
playing.py   one case as a backtest, and what is kept of it
tables.py    what came of it, in rows       drawing.py  and in pictures
```
"""
