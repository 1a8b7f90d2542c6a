"""Random closed simulations: `deltabook.simulation`, run small and checked by everything that can contradict it.

```
__main__.py ──seeds──▶ world.py   a seed's configuration, run over a journal and in memory
                         ├ frantic.py   a strategy that asks for anything
                         └ audit.py     the journal by the independent market, lots and orders by adding up
```
"""
