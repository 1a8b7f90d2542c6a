"""How much the agents' market looks like a recorded one, and what an order of theirs costs.

``python -m bench.market`` writes the table and the picture of docs/market.md.

```
observing.py  a market is watched while a recording or agents trade in it
tables.py     the figures of `deltabook.facts`, as the table of the page
benchmark.py  what agents cost
```
"""
