"""The feeds that a live runtime can read: which source brings the bytes and which adaptor makes deltas of them."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from runtime.engine.ingest import EpochWriter
from runtime.epochs import Cut
from runtime.formats import Pushdown
from runtime.formats.itch import itch_schema
from runtime.native.cache import default_kernels
from runtime.relations import Adaptor, FeedAdaptor, Retention
from runtime.relations.itch import ItchAdaptor, Scale
from runtime.service.errors import ServiceError
from runtime.sources import Backoff, FeedSource, SoupBinFeedSource, TextFeedSource
from runtime.state import ObjectSpace, PersistedValue, Schema

__all__ = ["FeedProtocol", "begin_feed", "columns_read", "make_adaptor", "make_source"]


_KEPT: Final = "feed/protocol"


class FeedProtocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an exchange's feed looks like on the wire, and what its figures are worth."""

    name: Literal["text", "itch"] = "text"
    """Lines of the text protocol, or ITCH 5.0 over SoupBinTCP."""
    midnight_ns: int = 0
    """Of ITCH: midnight of the session's first day, nanoseconds since the UTC epoch; its times count from there."""
    tick_units: int = 1
    """Of ITCH: units of 0.0001 in a tick, of all symbols."""

    def __str__(self) -> str:
        if self.name == "text":
            return self.name
        midnight = datetime.fromtimestamp(self.midnight_ns // 10**9, UTC)
        return f"itch, a tick of {Decimal(self.tick_units) / 10_000}, the day {midnight:%Y-%m-%d}"


def begin_feed(writer: EpochWriter, protocol: FeedProtocol, where: str) -> None:
    """Keep what a new run directory is begun with; on an old one raise `ServiceError` if it was begun with another.

    The position in a feed is the number of a message, and the rows have its times and prices: those of one protocol
    mean nothing in another.
    """
    space, schema = writer.space, Schema(FeedProtocol)
    if _KEPT not in space and writer.epoch < 0:
        space.create(PersistedValue, _KEPT, schema, initial=protocol)
        return
    begun_with = space.get(PersistedValue[FeedProtocol], _KEPT, schema).value if _KEPT in space else FeedProtocol()
    if begun_with != protocol:
        raise ServiceError(f"expected the feed that {where} was begun with ({begun_with}), was another ({protocol})")


def make_source(
    protocol: FeedProtocol, reactor: Any, address: tuple[str, int], origin_id: int, backoff: Backoff | None = None
) -> FeedSource:
    """The source of a feed at a host and port; opens nothing."""
    if protocol.name == "text":
        return TextFeedSource(reactor, *address, origin_id, backoff=backoff)
    return SoupBinFeedSource(reactor, *address, origin_id, backoff=backoff)


def make_adaptor(
    protocol: FeedProtocol,
    space: ObjectSpace,
    name: str,
    retention: Retention,
    cut: Cut,
    *,
    prefix: str = "",
    framing: Literal["soupbin", "file"] = "soupbin",
) -> Adaptor:
    """The adaptor of a feed whose messages up to the cut have been applied to the space.

    ``prefix`` stands in front of its symbols; ``framing`` is that of ITCH.
    """
    if protocol.name == "text":
        return FeedAdaptor(space, name, retention, cut.sequence + 1, prefix=prefix, kernels=default_kernels())
    return ItchAdaptor(
        space,
        name,
        retention,
        cut.sequence + 1,
        schema=itch_schema(framing, protocol.midnight_ns),
        scale=Scale(tick_units=protocol.tick_units),
        prefix=prefix,
        kernels=default_kernels(),
    )


def columns_read(adaptor: Adaptor) -> Pushdown:
    """What an adaptor of a feed reads of its rows: few of the wide ones of ITCH, all of a text feed's."""
    return adaptor.pushdown if isinstance(adaptor, ItchAdaptor) else Pushdown()
