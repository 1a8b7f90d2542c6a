"""Deltabook: an exchange, SQL views of its order books kept exactly up to date on Spark, and strategies on them.

```
cli ──▶ demo ──starts──▶ exchange_server ──feed──▶ runtime ──view changes──▶ algo_engine ──orders──▶ exchange_server
 ├────▶ dashboard: all of them in a browser
 └────▶ backtest: recorded flow, the market, views and strategies in one process, and sweeps of it
wire: the message types that these parts share
```

The composition root: it may import every other package, and none of them imports it, `deltabook.wire` excepted.
"""

__version__ = "0.2.0"

__all__ = ["__version__"]
