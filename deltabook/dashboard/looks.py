"""The views that pages have open: their first rows, their SQL and how they are kept, asked for while somebody looks."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final
from urllib.parse import quote

import msgspec

from deltabook.dashboard.asking import Asker, Refused
from deltabook.dashboard.rounds import Rounds

__all__ = ["MOST_ROWS", "Look", "Looks"]

MOST_ROWS: Final = 200
"""Of a view, on a page."""
_FEW_ROWS: Final = 1_000
"""Views of so many rows are asked for as a whole, larger ones by a cursor of one page."""
_ROUND_S: Final = 0.5
_INTEREST_S: Final = 3.0
"""A view that no page has asked for in so long is looked at no more."""
MOST_LOOKS: Final = 20
_LONGEST_TEXT: Final = 100_000

_exact: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
"""Numbers with a point as they stand there."""


class Look(msgspec.Struct, frozen=True):
    """A view as a page shows it."""

    epoch: int
    step: int
    columns: tuple[str, ...]
    rows: tuple[tuple[str | None, ...], ...]
    """Every cell as text, exactly; None for an empty one."""
    total: int
    """Rows that the view has."""
    explain: str
    """The way from relations to rows, with its maps."""
    problem: str = ""
    """Why there is nothing newer."""


class Looks:
    """Follows the views that somebody has open."""

    def __init__(self, asker: Asker, clock: Any, rows_of: Callable[[str], int]) -> None:
        """``rows_of``: how many rows a view is said to have."""
        self.found: dict[str, Look] = {}
        """View → what was found last."""
        self._asker, self._clock, self._rows_of = asker, clock, rows_of
        self._wanted_s: dict[str, float] = {}
        self._explained: dict[str, str] = {}
        self._rounds = Rounds(clock, _ROUND_S, self._round, lambda _: None)

    def start(self) -> None:
        """Ask from now on."""
        self._rounds.start()

    def stop(self) -> None:
        """Ask no more."""
        self._rounds.stop()

    def want(self, view: str) -> None:
        """A page has a view open; of more than `MOST_LOOKS` the further ones have to wait."""
        if view in self._wanted_s or len(self._wanted_s) < MOST_LOOKS:
            self._wanted_s[view] = self._clock.seconds()

    async def _round(self) -> None:
        now_s = self._clock.seconds()
        for view in [view for view, at_s in self._wanted_s.items() if now_s - at_s > _INTEREST_S]:
            for held in (self._wanted_s, self.found, self._explained):
                held.pop(view, None)
        for view in tuple(self._wanted_s):
            try:
                self.found[view] = await self._look(view)
            except Refused as error:
                # What there was stays to be seen, with the reason: a page is told why a table stands still.
                old = self.found.get(view) or Look(0, 0, (), (), 0, self._explained.get(view, ""))
                self.found[view] = msgspec.structs.replace(old, problem=str(error))

    async def _look(self, view: str) -> Look:
        path = f"/v1/views/{quote(view, safe='')}"
        if view not in self._explained:
            text = (await self._asker.ask(f"{path}/explain")).decode("utf-8", "replace")
            self._explained[view] = text[:_LONGEST_TEXT]
        few = self._rows_of(view) <= _FEW_ROWS
        body = await (self._asker.ask(f"{path}?integers=string") if few else self._page(path))
        found = _exact.decode(body)
        rows = found["rows"]
        return Look(
            epoch=found.get("epoch", 0),
            step=found.get("step", 0),
            columns=tuple(c["name"] if isinstance(c, dict) else str(c) for c in found["columns"]),
            rows=tuple(tuple(_cell(value) for value in row) for row in rows[:MOST_ROWS]),
            total=found.get("total", len(rows)) if few else max(self._rows_of(view), len(rows)),
            explain=self._explained[view],
        )

    async def _page(self, path: str) -> bytes:
        """The first page of a cursor, which is closed at once."""
        opened = msgspec.json.decode(
            await self._asker.ask(f"{path}/cursor", method="POST", body=b'{"rows":%d}' % MOST_ROWS), type=dict[str, Any]
        )
        cursor = f"/v1/cursors/{quote(str(opened['id']), safe='')}"
        try:
            return await self._asker.ask(f"{cursor}?page=1")
        finally:
            await self._asker.ask(cursor, method="DELETE")


def _cell(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
