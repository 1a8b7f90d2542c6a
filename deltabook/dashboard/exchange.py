"""Follows an exchange by its admin port: the phases of its symbols, and what their ticks and lots are worth."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote

import msgspec

from deltabook.dashboard.asking import Asker
from deltabook.dashboard.links import Link
from deltabook.dashboard.rounds import Rounds
from deltabook.dashboard.scales import Scales
from deltabook.wire.admin import BOOK_PATH, STATISTICS_PATH, STATUS_PATH, Book, Statistics, SymbolLine
from deltabook.wire.symbols import Instrument

__all__ = ["Exchange"]

_ROUND_S: Final = 1.0
_MOST_PAGES: Final = 10
"""Largest number of pages of the list of symbols."""
_MOST_NEW: Final = 50
"""Symbols whose lot is asked for in one round."""

_statistics: Final = msgspec.json.Decoder(Statistics)
_book: Final = msgspec.json.Decoder(Book)


class _Status(msgspec.Struct, frozen=True):
    """What is read of the exchange's status."""

    up_s: float


_status: Final = msgspec.json.Decoder(_Status)


class Exchange:
    """One exchange. What it said last stays when it is lost."""

    def __init__(self, asker: Asker, link: Link, scales: Scales, wanted: Callable[[str], bool], clock: Any) -> None:
        """``wanted`` says of which symbols the scale is needed."""
        self.link = link
        self.phases: dict[str, str] = {}
        """Symbol → what its trading is doing, ``continuous`` mostly."""
        self._asker, self._scales, self._wanted = asker, scales, wanted
        self._lots: dict[str, str] = {}
        self._rounds = Rounds(clock, _ROUND_S, self._round, link.lost)

    def start(self) -> None:
        """Ask from now on."""
        self._rounds.start()

    def stop(self) -> None:
        """Ask no more."""
        self._rounds.stop()

    async def _round(self) -> None:
        lines: list[SymbolLine] = []
        for _ in range(_MOST_PAGES):
            after = f"?after={quote(lines[-1].symbol, safe='')}" if lines else ""
            page = _statistics.decode(await self._asker.ask(f"{STATISTICS_PATH}{after}"))
            lines.extend(page.symbols)
            if not page.symbols or len(lines) >= page.total_symbols:
                break
        self.phases = {line.symbol: line.phase for line in lines}
        new = [line for line in lines if line.symbol not in self._lots and self._wanted(line.symbol)]
        for line in new[:_MOST_NEW]:
            book = _book.decode(await self._asker.ask(f"{BOOK_PATH}{quote(line.symbol, safe='')}?depth=1"))
            self._lots[line.symbol] = book.lot_size
            self._scales.learn(Instrument(line.symbol, book.tick_size, book.lot_size))
        self.link.up(_status.decode(await self._asker.ask(STATUS_PATH)).up_s)
        self.link.live()
