"""How much the agents' market looks like a recorded one, and what an order of theirs costs.

``python -m bench.market`` writes the table and the picture of docs/market.md.

```
observing.py  a market is watched while a recording or agents trade in it
figures.py    what is seen, in numbers           drawing.py  and in pictures
benchmark.py  what agents cost
```
"""
