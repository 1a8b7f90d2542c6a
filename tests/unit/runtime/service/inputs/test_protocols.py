"""Which feed a run directory reads is settled when it is begun."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runtime.engine.ingest import EpochWriter
from runtime.epochs import Cut
from runtime.formats import Pushdown
from runtime.relations import FeedAdaptor, Retention
from runtime.relations.itch import ItchAdaptor
from runtime.service.errors import ServiceError
from runtime.service.inputs.protocols import FeedProtocol, begin_feed, make_adaptor, make_source
from runtime.sources import SoupBinFeedSource, TextFeedSource

ITCH = FeedProtocol("itch", midnight_ns=86_400 * 10**9, tick_units=100)


def begin(directory: Path, protocol: FeedProtocol, *, seals: bool = True) -> None:
    """What a runtime does when it starts."""
    writer = EpochWriter(directory, lambda: 0, lambda _: None)
    try:
        begin_feed(writer, protocol, "here")
        if seals:
            writer.seal({})
    finally:
        writer.close()


def test_a_directory_keeps_the_feed_that_it_was_begun_with(tmp_path: Path) -> None:
    begin(tmp_path, ITCH)
    begin(tmp_path, ITCH)
    with pytest.raises(
        ServiceError, match=r"begun with \(itch, a tick of 0.01, the day 1970-01-02\), was another \(text\)"
    ):
        begin(tmp_path, FeedProtocol())
    with pytest.raises(ServiceError, match=r"was another \(itch, a tick of 0.0001, the day 1970-01-02\)"):
        begin(tmp_path, FeedProtocol("itch", midnight_ns=86_400 * 10**9))


def test_a_directory_that_never_got_an_epoch_may_begin_again(tmp_path: Path) -> None:
    begin(tmp_path, ITCH, seals=False)
    begin(tmp_path, FeedProtocol())
    begin(tmp_path, FeedProtocol())


def test_a_directory_from_before_there_was_a_choice_reads_text(tmp_path: Path) -> None:
    writer = EpochWriter(tmp_path, lambda: 0, lambda _: None)
    writer.seal({})
    writer.close()
    begin(tmp_path, FeedProtocol())
    with pytest.raises(ServiceError, match=r"begun with \(text\)"):
        begin(tmp_path, ITCH)


@pytest.mark.parametrize(
    ("protocol", "source", "adaptor"),
    [(FeedProtocol(), TextFeedSource, FeedAdaptor), (ITCH, SoupBinFeedSource, ItchAdaptor)],
)
def test_a_protocol_has_its_source_and_its_adaptor(
    tmp_path: Path, protocol: FeedProtocol, source: Any, adaptor: Any
) -> None:
    writer = EpochWriter(tmp_path, lambda: 0, lambda _: None)
    assert isinstance(make_source(protocol, None, ("127.0.0.1", 1), 0), source)
    made: Any = make_adaptor(protocol, writer.space, "feed", Retention(), Cut("S1", 41, 0))
    assert isinstance(made, adaptor)
    assert made.next_sequence == 42
    writer.close()


def test_of_wide_rows_only_the_columns_that_count_are_parsed(tmp_path: Path) -> None:
    writer = EpochWriter(tmp_path, lambda: 0, lambda _: None)
    wide = make_adaptor(ITCH, writer.space, "feed", Retention(), Cut("S1", 0, 0))
    assert "attribution" in (wide.pushdown.columns or ())
    assert "ipo_price" not in (wide.pushdown.columns or ())
    lines = make_adaptor(FeedProtocol(), writer.space, "lines", Retention(), Cut("S1", 0, 0))
    assert lines.pushdown == Pushdown()
    writer.close()
