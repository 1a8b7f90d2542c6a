"""The desk of a strategy: its orders from the request to the end, and what its trades have earned.

```
buy, sell, replace ─▶ risk.py ─▶ desk.py ──▶ exchange
cancel, reduce ────────────────▶    │   ◀──── answers
                                    ├─▶ order_sync.py    when the journal is synced: before a request is sent, or behind
                                    ├─▶ fees.py
                                    └─▶ state.py
                                          ├─▶ journal.py (records.py)   written before anything is sent
                                          ├─▶ memories.py               data that a strategy keeps over restarts
                                          ├─▶ blotter.py (order.py)     every own order through its life
                                          ├─▶ portfolio.py              position, profit and fees in integers
                                          └─▶ trades.py                 the list of own trades
```

trade_recovery.py restores the list of trades after a crash or damage; void_trades.py reverses trades.
"""

__all__: list[str] = []
