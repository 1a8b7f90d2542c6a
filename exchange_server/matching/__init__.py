"""The market: books, matching and accounts; a pure function of its rules and inputs.

A module imports only modules on lines below its own:

```
market.py           Market: applies an input, the API of protocols      AccountProtocol: reads a protocol's bytes
  snapshots.py      state as bytes, its fingerprint, its invariants
  auctions.py       phases of the session, and auctions: their prices, and the orders that execute
  recording.py      records of a replayed file
  requests.py       accept or refuse an order; replace, reduce and cancel live ones
  special_orders.py iceberg, hidden, post-only, market, minimum, stop; self-trades; the collar
    book.py         Book: where each live order is, and plain matching
      market_state.py  MarketState: identifiers, accounts and counters, which the books share
      levels.py     one side of a book             triggers.py  stop prices and expiry times of live orders
      outputs.py    FeedEncoder (the public feed), Teller (one account)
      inputs.py     requests, as the journal has them
      order.py      plain records: orders, accounts, reasons
```

The path of an order, from the call of `Market.apply` to the feed:

```
Market.apply(Enter) ─▶ Market.enter ─┬─ plain (no flags, no limits) ▶ Book.enter ─▶ Book.execute ─┐
                                     └─▶ Market.enter_checked                                   ├─▶ FeedEncoder, Teller
                                           requests.refusal_of ─▶ refused: Teller               │
                                           special_orders.enter_special ─▶ match_special ───────┘
                                     then special_orders.trigger_stops, for stops that its trades have reached
```

The code for each kind of order:

```
limit                                       Book.enter
market, immediate-or-cancel, post-only      special_orders.match_special
minimum, fill-or-kill                       special_orders.match_special
iceberg                                     Book.rest, special_orders.show_next_part
hidden                                      Book.rest, special_orders.match_special
stop                                        triggers.Stops, special_orders.trigger_stops
with a time of expiry                       triggers.Expiries, Market.expire
for an auction                              auctions.change_phase
pegged                                      none here: strategies move them, algo_engine.execution.pegs
```

`Market` is also the library for backtests: it needs no process, no files and no clock. docs/matching.md has the rules.
"""

from exchange_server.matching.book import Book
from exchange_server.matching.inputs import (
    AnyInput,
    Bust,
    Cancel,
    Enter,
    Input,
    Kill,
    MarketRules,
    MassCancel,
    OpenAccount,
    Phase,
    PhaseName,
    Recorded,
    Reduce,
    Replace,
    ReplayMode,
    Tick,
    Wire,
)
from exchange_server.matching.market import AccountProtocol, Market
from exchange_server.matching.order import Account, AccountLimits, CancelReason, Order, RefuseReason, SelfTrade, Side
from exchange_server.matching.outputs import (
    FeedEncoder,
    FeedFan,
    Imbalance,
    Now,
    Silence,
    SilentTeller,
    Teller,
    Touched,
)

__all__ = [
    "Account",
    "AccountLimits",
    "AccountProtocol",
    "AnyInput",
    "Book",
    "Bust",
    "Cancel",
    "CancelReason",
    "Enter",
    "FeedEncoder",
    "FeedFan",
    "Imbalance",
    "Input",
    "Kill",
    "Market",
    "MarketRules",
    "MassCancel",
    "Now",
    "OpenAccount",
    "Order",
    "Phase",
    "PhaseName",
    "Recorded",
    "Reduce",
    "RefuseReason",
    "Replace",
    "ReplayMode",
    "SelfTrade",
    "Side",
    "Silence",
    "SilentTeller",
    "Teller",
    "Tick",
    "Touched",
    "Wire",
]
