"""The feeds that a live runtime can read: which source brings the bytes and which adaptor makes deltas of them."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from runtime.epochs import Cut
from runtime.formats import Pushdown
from runtime.formats.itch import itch_schema
from runtime.relations import Adaptor, FeedAdaptor, Retention
from runtime.relations.itch import ItchAdaptor, Scale
from runtime.sources import FeedSource, SoupBinFeedSource, TextFeedSource
from runtime.state import ObjectSpace

__all__ = ["FeedProtocol", "columns_read", "make_adaptor", "make_source"]


class FeedProtocol(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an exchange's feed looks like on the wire, and what its figures are worth."""

    name: Literal["text", "itch"] = "text"
    """Lines of the text protocol, or ITCH 5.0 over SoupBinTCP."""
    midnight_ns: int = 0
    """Of ITCH: midnight of the session's first day, nanoseconds since the UTC epoch; its times count from there."""
    tick_units: int = 1
    """Of ITCH: units of 0.0001 in a tick, of all symbols."""
    username: str = ""
    """Of ITCH: at most 6 characters."""
    password: str = ""
    """Of ITCH: at most 10 characters."""


def make_source(protocol: FeedProtocol, reactor: Any, address: tuple[str, int], origin_id: int) -> FeedSource:
    """The source of a feed at a host and port; opens nothing."""
    if protocol.name == "text":
        return TextFeedSource(reactor, *address, origin_id)
    return SoupBinFeedSource(reactor, *address, origin_id, username=protocol.username, password=protocol.password)


def make_adaptor(protocol: FeedProtocol, space: ObjectSpace, name: str, retention: Retention, cut: Cut) -> Adaptor:
    """The adaptor of a feed whose messages up to the cut have been applied to the space."""
    if protocol.name == "text":
        return FeedAdaptor(space, name, retention, cut.sequence + 1)
    schema, scale = itch_schema("soupbin", protocol.midnight_ns), Scale(tick_units=protocol.tick_units)
    return ItchAdaptor(space, name, retention, cut.sequence + 1, schema=schema, scale=scale)


def columns_read(adaptor: Adaptor) -> Pushdown:
    """What an adaptor of a feed reads of its rows: few of the wide ones of ITCH, all of a text feed's."""
    return adaptor.pushdown if isinstance(adaptor, ItchAdaptor) else Pushdown()
