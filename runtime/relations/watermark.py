"""Watermarks: how far an origin's event time has come."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from runtime.state import ObjectSpace, PersistedValue, Schema

__all__ = ["Watermark"]

_MICROSECOND_NS: Final = 1_000
_DAY_NS: Final = 86_400_000_000_000
_LATEST: Final = 2**63 - 2
"""2^63 - 1 is the watermark of an origin that has ended."""


class Watermark:
    """The largest time of an origin's rows so far, in nanoseconds; an object of the space.

    Integers are nanoseconds already, timestamps and dates become those since 1970, at most 2^63 - 2. Not thread-safe:
    one owner at a time.
    """

    def __init__(self, space: ObjectSpace, name: str) -> None:
        self._kept = space.get_or_create(
            PersistedValue[int | None], f"{name}/watermark", Schema(int | None), initial=None
        )

    @property
    def value(self) -> int | None:
        """The time; None before the first row."""
        return self._kept.value

    def advance(self, times: pa.Array) -> None:
        """Take over the times of rows; NULL is none."""
        latest = _largest(times)
        if latest is not None and (self._kept.value is None or latest > self._kept.value):
            self._kept.value = latest


def _largest(times: pa.Array) -> int | None:
    if not len(times):
        return None
    if times.type == pa.int64() and not times.null_count:
        return int(times.to_numpy().max())
    unit = 1 if times.type == pa.int64() else _DAY_NS if pa.types.is_date32(times.type) else _MICROSECOND_NS
    latest = pc.max(times.view(pa.int32() if unit == _DAY_NS else pa.int64())).as_py()
    return None if latest is None else min(unit * latest, _LATEST)
