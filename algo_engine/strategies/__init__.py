"""The strategies that come with the engine; each file is also an example of how to write one.

```
sobi.py           leans against the shape of the book: trades when one side's volume stands much nearer to the price
market_maker.py   quotes both sides around the middle, shifted against its inventory
_sizing.py        sizes and limits, given per symbol or relative to the visible size at the touch
```
"""

from algo_engine.strategies.market_maker import MarketMaker, MarketMakerParameters
from algo_engine.strategies.sobi import SimpleSobi, SobiParameters

__all__ = ["MarketMaker", "MarketMakerParameters", "SimpleSobi", "SobiParameters"]
