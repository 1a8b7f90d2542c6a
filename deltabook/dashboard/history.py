"""Histories of a dashboard: candles, lines, depth, fills, money and engine figures, kept whether a page is open or not.

A history is a `Series`: rows by key, in the order of their last change. A row is encoded when it is entered. Each row
has the number of the first frame that contains the row, so that a page is sent only rows that it does not have. Prices
and quantities are ticks and lots, because the worth of a tick may become known after the first row.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import msgspec

__all__ = [
    "MOST_CHARTED",
    "Charted",
    "Depth",
    "EnginePoint",
    "FillMark",
    "Gap",
    "History",
    "PriceLine",
    "ProfitPoint",
    "Series",
]

MOST_CHARTED: Final = 100
"""Greatest number of symbols with histories: those that were seen first."""
MOST_SECONDS: Final = 960
"""Number of rows that cover a second each; charts of more than a quarter of an hour use the rows that cover a minute.
"""
MOST_MINUTES: Final = 1_440
"""Number of rows that cover a minute each: a day."""
MOST_MARKS: Final = 2_000
"""Greatest number of marks of own fills of one symbol."""
DEPTH_EVERY_S: Final = 2
"""Least time between two samples of a book's depth, in seconds."""
MOST_DEPTHS: Final = 450
"""Greatest number of samples of a book's depth: a quarter of an hour."""
MOST_FIGURES: Final = 180
"""Greatest number of rows of the engine's figures, a second each."""
MOST_GAPS: Final = 100
"""Greatest number of gaps."""

_encode = msgspec.json.Encoder().encode


class PriceLine(msgspec.Struct, frozen=True, array_like=True):
    """Prices of one second or minute in ticks, for a chart; None for a missing price."""

    time_s: int
    """Market time in seconds."""
    mid: float | None
    """Middle of the best bid and the best ask."""
    vwap: float | None
    """Average price of recent trades."""
    vwap_bid: float | None
    """Average price of all resting bids."""
    vwap_ask: float | None
    """Average price of all resting asks."""


class Depth(msgspec.Struct, frozen=True, array_like=True):
    """The best levels of a book at one time."""

    time_s: int
    """Market time in seconds."""
    bids: tuple[int, ...]
    """Levels, best first, as a flat sequence: price in ticks, quantity in lots, price, quantity, and so on."""
    asks: tuple[int, ...]
    """Levels of the asks, in the form of `bids`."""


class FillMark(msgspec.Struct, frozen=True, array_like=True):
    """Own fills of one strategy on one side at one price within a second."""

    number: int
    """Number of the mark, ascending."""
    time_s: float
    """Market time in seconds."""
    price_ticks: int
    """Price in ticks."""
    side: str
    """Side, B or S."""
    volume_lots: int
    """Total number of lots."""
    fills: int
    """Number of fills."""
    strategy: str
    """Name of the strategy."""


class ProfitPoint(msgspec.Struct, frozen=True, array_like=True):
    """Profit at one time, for a chart."""

    time_s: int
    """Market time in seconds."""
    total: float
    """Profit of all strategies after fees."""
    strategies: tuple[float, ...]
    """Profits in the order of the strategies' list."""


class EnginePoint(msgspec.Struct, frozen=True, array_like=True):
    """Figures of the runtime at one time, for a chart."""

    time_s: int
    """Time of this machine's clock, in seconds."""
    messages_per_s: float | None
    """Messages of the feed per second."""
    express_lag_ms: float | None
    """Lag of the express lane in milliseconds."""
    lag_ms: float | None
    """Lag of the Spark lane in milliseconds."""
    batch_ms: float | None
    """Milliseconds that the latest batch on Spark took; without Spark, the median duration of a barrier."""
    memory_bytes: float | None
    """Memory of the process."""
    live_orders: float | None
    """Number of resting orders."""
    waiting_bytes: float | None
    """Bytes of raw buffers between the sources and the epochs."""


class Gap(msgspec.Struct, frozen=True, array_like=True):
    """Time span in which the runtime was not followed."""

    begin_s: int
    """Market time of the beginning in seconds."""
    end_s: int | None
    """Market time of the end in seconds; None while the gap lasts."""


class Series:
    """Bounded number of rows by key; beyond the bound, the row that has not changed for the longest time is removed.

    Entering a row costs O(1), reading O(rows returned).
    """

    def __init__(self, most: int) -> None:
        self.begun = 0
        """Number of the first frame after the last clearing: a page with an older frame starts over."""
        self._most = most
        self._rows: OrderedDict[Any, tuple[int, bytes]] = OrderedDict()  # in order of their last change

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def last(self) -> Any:
        """Key of the row that changed last; None if there is none."""
        return next(reversed(self._rows), None)

    def put(self, number: int, key: Any, row: Any) -> None:
        """Enter or change a row; ``number`` is the number of the next frame."""
        data = _encode(row)
        entry = self._rows.get(key)
        if entry is not None and entry[1] == data:
            return
        self._rows[key] = number, data
        self._rows.move_to_end(key)
        while len(self._rows) > self._most:
            self._rows.popitem(last=False)

    def replace(self, number: int, rows: Mapping[Any, Any]) -> None:
        """Enter the newest rows; if none of them is as new as the newest present row, remove the present rows first."""
        newest = max(rows, default=None)
        if self._rows and (newest is None or newest < max(self._rows)):
            self.clear(number)
        for key, row in rows.items():
            self.put(number, key, row)

    def clear(self, number: int) -> None:
        """Clear the rows, and start over with the next frame."""
        self._rows.clear()
        self.begun = number

    def changes_after(self, have: int) -> bytes | None:
        """Return the rows of frames after ``have`` as JSON, in order of change; all rows for a page without a frame."""
        is_whole = have == 0 or have < self.begun
        texts: list[bytes] = []
        for number, data in reversed(self._rows.values()):
            if number <= have and not is_whole:
                break
            texts.append(data)
        if not (texts or is_whole):
            return None
        texts.reverse()
        return b'{"all":%b,"rows":[%b]}' % (b"true" if is_whole else b"false", b",".join(texts))

    def _check(self) -> None:
        numbers = [number for number, _ in self._rows.values()]
        assert numbers == sorted(numbers)
        assert len(numbers) <= self._most


class Charted:
    """Histories of one symbol."""

    def __init__(self) -> None:
        self.bars_1s, self.bars_1m = Series(MOST_SECONDS), Series(MOST_MINUTES)
        """Candles: see `deltabook.dashboard.bars`."""
        self.lines_1s, self.lines_1m = Series(MOST_SECONDS), Series(MOST_MINUTES)
        self.depth, self.marks = Series(MOST_DEPTHS), Series(MOST_MARKS)
        self._marks = 0

    def sections(self) -> dict[str, Series]:
        """Return the histories by their names in a frame."""
        return {
            "bars_1s": self.bars_1s,
            "bars_1m": self.bars_1m,
            "lines_1s": self.lines_1s,
            "lines_1m": self.lines_1m,
            "depth": self.depth,
            "marks": self.marks,
        }

    def add_line(self, number: int, line: PriceLine) -> None:
        """Enter the prices of this second; the last prices of a minute represent the minute."""
        self.lines_1s.put(number, line.time_s, line)
        minute = line.time_s // 60 * 60
        self.lines_1m.put(number, minute, msgspec.structs.replace(line, time_s=minute))

    def wants_depth(self, time_s: int) -> bool:
        """Return True if the newest sample of depth is old enough for another one."""
        return self.depth.last is None or abs(time_s - self.depth.last) >= DEPTH_EVERY_S

    def add_mark(self, number: int, mark: FillMark) -> None:
        """Number and enter own fills."""
        self._marks += 1
        self.marks.put(number, self._marks, msgspec.structs.replace(mark, number=self._marks))


class History:
    """Histories of all symbols, of money and of the engine."""

    def __init__(self) -> None:
        self.money_1s, self.money_1m = Series(MOST_SECONDS), Series(MOST_MINUTES)
        self.figures, self.gaps = Series(MOST_FIGURES), Series(MOST_GAPS)
        self._symbols: dict[str, Charted] = {}
        self._gap_begin_s: int | None = None

    def sections(self) -> dict[str, Series]:
        """Return the histories that do not belong to a symbol, by their names in a frame."""
        return {
            "money_1s": self.money_1s,
            "money_1m": self.money_1m,
            "figures": self.figures,
            "gaps": self.gaps,
        }

    def of(self, symbol: str) -> Charted | None:
        """Return the histories of a symbol; None beyond `MOST_CHARTED`."""
        charted = self._symbols.get(symbol)
        if charted is None and len(self._symbols) < MOST_CHARTED:
            charted = self._symbols[symbol] = Charted()
        return charted

    def add_money(self, number: int, money: ProfitPoint) -> None:
        """Enter the profit of this second; the last profit of a minute represents the minute."""
        self.money_1s.put(number, money.time_s, money)
        minute = money.time_s // 60 * 60
        self.money_1m.put(number, minute, msgspec.structs.replace(money, time_s=minute))

    def restart(self, number: int) -> None:
        """Clear the histories in market time except the candles: the market has another clock than before."""
        series = [self.money_1s, self.money_1m, self.gaps]
        for charted in self._symbols.values():
            series += [charted.lines_1s, charted.lines_1m, charted.depth, charted.marks]
        for each in series:
            each.clear(number)
        self._gap_begin_s = None

    def follow(self, number: int, time_s: int, *, is_live: bool) -> None:
        """Enter whether the runtime is followed now: a gap begins, lasts or ends."""
        if not is_live and self._gap_begin_s is None:
            self._gap_begin_s = time_s
            self.gaps.put(number, time_s, Gap(time_s, None))
        elif is_live and self._gap_begin_s is not None:
            self.gaps.put(number, self._gap_begin_s, Gap(self._gap_begin_s, time_s))
            self._gap_begin_s = None
