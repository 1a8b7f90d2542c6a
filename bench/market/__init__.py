"""Similarity of the agents' market to a recorded one, and the cost of an agent's order.

``python -m bench.market`` writes the table and the plot of docs/market.md.

```
observing.py  watches a market while agents trade in it
tables.py     the figures of `deltabook.facts`, as the table of the page
benchmark.py  what agents cost
```
"""
