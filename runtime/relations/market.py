"""What the adaptors of market feeds share: where an epoch may end, and the trades that stay."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from runtime.relations.adaptor import Offsets, Prepared
from runtime.relations.orderbook import TRADES_SCHEMA
from runtime.relations.retention import Retained, Retention
from runtime.state import KeyColumn, ObjectSpace

__all__ = ["RecentTrades", "action_codes", "without_heartbeats"]


class RecentTrades:
    """The trades that are still in TRADES."""

    def __init__(self, space: ObjectSpace, name: str, retention: Retention) -> None:
        columns = [KeyColumn(f.name, _key_type(f.type), nullable=True) for f in TRADES_SCHEMA if f.name != "weight"]
        self._retained = Retained(space, f"{name}/trades", columns, retention, number="match_id", time="t")

    def take(self, deltas: Mapping[str, pa.RecordBatch]) -> None:
        """Keep the trades among deltas."""
        if "trades" in deltas:
            self._retained.add(deltas["trades"])

    def expire(self) -> Mapping[str, pa.RecordBatch]:
        """The deltas of trades whose time is over."""
        expired = self._retained.expire()
        return {} if expired is None else {"trades": expired}


def without_heartbeats(
    rows: pa.RecordBatch, row_ends: Offsets, heartbeat: npt.NDArray[np.bool_], time_ns: npt.NDArray[np.int64]
) -> Prepared:
    """The messages among rows; an epoch may end before a heartbeat and between two messages with different times."""
    cuttable = np.zeros(len(heartbeat), np.bool_)
    cuttable[:-1] = heartbeat[1:] | (time_ns[1:] != time_ns[:-1])
    if heartbeat.any():
        keep = ~heartbeat
        return Prepared(rows.filter(pa.array(keep)), row_ends[keep], cuttable[keep])
    return Prepared(rows, row_ends, cuttable)


def action_codes(column: pa.Array) -> npt.NDArray[np.uint8]:
    """The first letter's code of each action; 0 for an empty one."""
    encoded = column.dictionary_encode()
    codes = np.array(
        [ord(t[0]) if len(t) == 1 and t.isascii() else 0 for t in encoded.dictionary.to_pylist()], np.uint8
    )
    found: npt.NDArray[np.uint8] = codes[encoded.indices.to_numpy()]
    return found


def _key_type(type_: pa.DataType) -> str:
    return "string" if pa.types.is_string(type_) else "int64"
