"""DBToaster's order-book traces: ``t,id,action,volume,price``, no header, prices in 1/10,000."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from exchange_server.errors import RecordError
from exchange_server.replay.record import INT64_MAX, Loader, Record

__all__ = ["BROKERS", "DbtoasterLoader"]

BROKERS: Final = 10
"""A record's broker is its id modulo this."""

_ACTIONS: Final = frozenset("BSEFDXTC")
_NAMES: Final = ("t", "id", "volume", "price")


class DbtoasterLoader(Loader):
    """Records of a trace, whose `t` are milliseconds of a day (1970-01-01 unless `day_ns` says otherwise).

    A trace's X is a cross, a trade that no displayed order took part in, and not this market's partial cancel: it
    becomes T. C (a broken trade) has no effect; it is passed on and counted. Time is clamped to be non-decreasing.
    """

    def __init__(self, path: Path, *, day_ns: int = 0, unit_ns: int = 1_000_000) -> None:
        super().__init__(path)
        self._day_ns = day_ns
        self._unit_ns = unit_ns

    def _parse(self, lines: Iterator[tuple[int, str]]) -> Iterator[Record]:
        time_ns = 0
        for number, line in lines:
            try:
                time, order_id, action, volume, price = _fields(line)
            except RecordError as error:
                self._bad(number, error)
                continue
            time_ns = max(time_ns, self._day_ns + time * self._unit_ns)
            yield Record(number, time_ns, order_id, order_id % BROKERS, "T" if action == "X" else action, volume, price)


def _fields(line: str) -> tuple[int, int, str, int, int]:
    fields = line.rstrip("\r\n").split(",")
    if len(fields) != 5:
        raise RecordError(f"expected 5 fields t,id,action,volume,price, was {len(fields)}")
    action = fields[2]
    if action not in _ACTIONS:
        raise RecordError(f"expected an action out of {' '.join(sorted(_ACTIONS))}, was {action!r}")
    try:
        numbers = int(fields[0]), int(fields[1]), int(fields[3]), int(fields[4])
    except ValueError as error:
        raise RecordError(f"expected integers for t, id, volume and price, was {error}") from None
    for name, value in zip(_NAMES, numbers, strict=True):
        if not 0 <= value <= INT64_MAX:
            raise RecordError(f"expected {name} from 0 to {INT64_MAX}, was {value}")
    return numbers[0], numbers[1], action, numbers[2], numbers[3]
