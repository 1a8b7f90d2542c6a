"""The strategies that come with the engine; each file is also an example of how to write one.

```
sobi.py            trades when one side's volume is much nearer to the last price              ─┐
volatile_sobi.py   the same, with a threshold relative to the volatility                        ├ take at the touch
timed_sobi.py      trades when one side's best orders are much older than the other's          ─┘
market_players.py  places orders in front of a broker that hides its volume                    ─┐ rest in the book
market_maker.py    quotes both sides around the middle, shifted against its inventory          ─┘
_taking.py         when a taker evaluates a symbol, how much it takes, how long it pauses
_shape.py          the shape of the book: distances from the last price
_resting.py        own orders, each moved to its intended price
_ladders.py        rows of a view by price level
_limits.py         sizes, given per symbol or relative to the visible size at the touch; how often a maker evaluates
```
"""

from algo_engine.strategies.market_maker import MarketMaker, MarketMakerParameters
from algo_engine.strategies.market_players import MarketPlayers, MarketPlayersParameters
from algo_engine.strategies.sobi import SimpleSobi, SobiParameters
from algo_engine.strategies.timed_sobi import TimedSobi, TimedSobiParameters
from algo_engine.strategies.volatile_sobi import VolatileSobi, VolatileSobiParameters

__all__ = [
    "MarketMaker",
    "MarketMakerParameters",
    "MarketPlayers",
    "MarketPlayersParameters",
    "SimpleSobi",
    "SobiParameters",
    "TimedSobi",
    "TimedSobiParameters",
    "VolatileSobi",
    "VolatileSobiParameters",
]
