"""Status of inputs and readers, as the service reports it."""

from __future__ import annotations

from collections.abc import Collection

from deltabook.wire.readers import FileConnection, ReaderStatus, SocketConnection
from runtime.compiler import MARKET_RELATIONS
from runtime.engine.ingest import Origin
from runtime.service.config import LiveConfig
from runtime.service.inputs.feed import FEED, Feed
from runtime.service.inputs.inputs import Inputs
from runtime.service.readers.kept import OWN_ADAPTOR, KeptReader, own_relation

__all__ = ["input_status", "reader_status"]

_MARKET = tuple(relation.name for relation in MARKET_RELATIONS)


def input_status(inputs: Inputs, config: LiveConfig) -> list[ReaderStatus]:
    """Return the status of the inputs that the runtime was started with, its feed first."""
    own = [] if inputs.feed is None or config.feed is None else [_feed_status(inputs.feed, *config.feed)]
    return own + [
        ReaderStatus(
            name=name,
            adaptor="upstream",
            source=line.directory,
            delivery="exactly-once",
            relations=_MARKET,
            since=0,
            state="reading",
            reason="" if line.state == "reading" else line.state,
            sequence=line.epoch,
        )
        for name, line in inputs.upstreams.status().items()
    ]


def _feed_status(feed: Feed, host: str, port: int) -> ReaderStatus:
    cut = feed.origin.cut()
    return ReaderStatus(
        name=FEED,
        adaptor=OWN_ADAPTOR,
        source=f"{host}:{port}",
        delivery="exactly-once",
        relations=_MARKET,
        since=0,
        state="failed" if feed.origin.failure else "reading",
        reason=feed.origin.failure,
        sequence=cut.sequence,
        offset=cut.offset,
        malformed=feed.origin.counters().bad,
    )


def reader_status(reader: KeptReader, origin: Origin | None, views: Collection[str]) -> ReaderStatus:
    """Return the status of an added reader; without an origin it is leaving."""
    wanted = reader.wanted
    own = own_relation(wanted)
    connection = wanted.connection
    is_plain = isinstance(connection, SocketConnection) and wanted.adaptor != OWN_ADAPTOR
    source = connection.path if isinstance(connection, FileConnection) else f"{connection.host}:{connection.port}"
    status = ReaderStatus(
        name=wanted.name,
        adaptor=wanted.adaptor,
        source=source,
        delivery="at-most-once" if is_plain else "exactly-once",
        relations=_MARKET if own is None else (own.name,),
        since=reader.since,
        state="leaving",
        views=tuple(views),
    )
    if origin is None:
        return status
    cut, counters = origin.cut(), origin.counters()
    reason = origin.failure
    if origin.ended and not reason and counters.tuples and counters.bad == counters.tuples:
        reason = f"expected rows, was none: all {counters.tuples} tuples are malformed; see dead-letters.jsonl"
    return ReaderStatus(
        **{
            **{name: getattr(status, name) for name in ReaderStatus.__struct_fields__},
            "state": "failed" if reason else "ended" if origin.ended else "reading",
            "reason": reason,
            "sequence": cut.sequence,
            "offset": cut.offset,
            "malformed": counters.bad,
        }
    )
