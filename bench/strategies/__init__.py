"""What the built-in strategies do on recorded markets: the tables and pictures of docs/strategies.md.

``python -m bench.strategies`` plays every case, writes the pictures, and puts the tables in their places.

```
cases.py     what is played against what
playing.py   one case as a backtest, and what is kept of it
tables.py    what came of it, in rows       drawing.py  and in pictures
```
"""
