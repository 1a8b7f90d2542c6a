"""The market: books, matching, accounts; pure functions of what they are asked.

```
 inputs.py ──▶ market.py ─────────▶ book.py ──▶ levels.py     order.py   what an order is
 (requests)    │ entering.py  checks  │ the fast way           account.py who owns it, what he may do
               │ changing.py  replace │
               │ phases.py    session └▶ taking.py  all the rules: icebergs, hidden, self-trades, collar, minimum
               │ crossing.py  auctions   stops.py   expiry.py
               │ recording.py files that are played
               └ state.py     snapshots, the state's fingerprint
                     │ what they say, while they do it
                     ▼
               outputs.py: FeedEncoder (everybody), Teller (one account); silence.py nobody, fan.py several
```

`Market` is also the library for backtests: it needs no process, no files and no clock. docs/matching.md has the rules.
"""

from exchange_server.matching.account import Account, AccountLimits, SelfTrade
from exchange_server.matching.book import Book
from exchange_server.matching.fan import FeedFan
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
from exchange_server.matching.market import Market
from exchange_server.matching.order import Order, Side
from exchange_server.matching.outputs import AccountProtocol, FeedEncoder, Imbalance, Now, Teller, Touched
from exchange_server.matching.reasons import CancelReason, RefuseReason
from exchange_server.matching.silence import Silence, SilentTeller

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
