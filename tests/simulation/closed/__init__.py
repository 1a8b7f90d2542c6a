"""Random closed simulations: `deltabook.simulation`, run small and compared with independent models.

```
__main__.py ──seeds──▶ world.py   a seed's configuration, run over a journal and in memory
                         ├ frantic.py   a strategy that sends random requests
                         └ audit.py     the journal by the independent market, lots and orders by adding up
```
"""
