"""The fast path of a backtest: recorded orders, books and views in one compiled loop.

```
records ─columns─▶ ┌─────────────── one call of the kernel ───────────────┐
                   │ books (flat arrays) ─rows─▶ batches ─▶ graph of views │ ─▶ a row of a view changed ─▶ strategies
own orders ──────▶ └──────────────────────────────────────────────────────┘ ─▶ an own order was executed ─▶ desk
```

* `columns.py`: records as arrays.
* `books.py`: the arrays of the books, and `NativeBook`, which stands in for `exchange_server.matching.Book` where the
  market carries out the requests of strategies.
* `loop.py`: `NativeLoop`, which plays records until Python has something to do.
* `runtime/native/library/matching.py`: the kernel.

The pure-Python market is the reference: both give the same bytes, which a property test compares. Whatever the kernel
does not know (stops, icebergs, hidden orders, auctions; views that DuckDB computes, or that are added during the run)
is handed over to the pure-Python market in the middle of a run, with the state that it would have had.
"""

from deltabook.backtest.native.loop import NativeLoop

__all__ = ["NativeLoop"]
