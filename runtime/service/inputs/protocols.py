"""Protocols of the exchange's feed, each with a source that reads bytes and an adaptor that turns the bytes into
deltas."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from runtime.engine.ingest import EpochWriter
from runtime.epochs import Cut
from runtime.formats.itch import itch_schema
from runtime.native.cache import default_kernels
from runtime.relations import Adaptor, FeedAdaptor, Retention
from runtime.relations.itch import ItchAdaptor, Scale
from runtime.service.errors import ServiceError
from runtime.sources import Backoff, FeedSource, SoupBinFeedSource, TextFeedSource
from runtime.state import ObjectSpace, PersistedValue, Schema

__all__ = ["FeedProtocol", "begin_feed", "make_adaptor", "make_source"]


_KEPT: Final = "feed/protocol"
"""Name of the object of the space that has the protocol."""


class FeedProtocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Protocol of an exchange's feed, and the units of its times and prices."""

    name: Literal["text", "itch"] = "text"
    """Name of the protocol: ``text`` for lines, ``itch`` for ITCH 5.0 over SoupBinTCP."""
    midnight_ns: int = 0
    """Midnight of the session's first day, from which ITCH's times count, in nanoseconds since the UTC epoch."""
    tick_units: int = 1
    """Tick size of all symbols of an ITCH feed, in units of 0.0001."""

    def __str__(self) -> str:
        if self.name == "text":
            return self.name
        midnight = datetime.fromtimestamp(self.midnight_ns // 10**9, UTC)
        return f"itch, a tick of {Decimal(self.tick_units) / 10_000}, the day {midnight:%Y-%m-%d}"


def begin_feed(writer: EpochWriter, protocol: FeedProtocol, where: str) -> None:
    """Record the protocol in a new run directory; raise `ServiceError` if an existing directory has another protocol.

    The position in a feed is the number of a message, and rows have the feed's times and prices. Positions, times and
    prices of one protocol have no meaning in another.
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
    """Return the source of a feed at a host and port, not yet open."""
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
    """Return the adaptor of a feed whose messages up to the cut have been applied to the space.

    ``prefix`` is put before the feed's symbols; ``framing`` is the framing of ITCH messages.
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
