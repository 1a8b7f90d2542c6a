"""The generated ITCH file is one that other programs read."""

from __future__ import annotations

import datetime
from collections import Counter
from pathlib import Path

import itch_book
from itch.parser import MessageParser

from bench.ingest.itchflow import itch_block

SIZE = 300_000


def test_another_parser_finds_as_many_messages_and_every_kind() -> None:
    block, messages = itch_block(SIZE, 1)
    assert 0.9 < len(block) / SIZE < 1.1
    found = Counter(message.message_type for message in MessageParser().parse_stream(block))
    assert found.total() == messages
    assert set(found) == {b"R", b"A", b"F", b"E", b"C", b"X", b"D", b"U", b"P"}


def test_another_book_builder_ends_every_repetition_empty(tmp_path: Path) -> None:
    block, messages = itch_block(SIZE, 2)
    path = tmp_path / "messages.itch"
    path.write_bytes(block * 2)
    feed = itch_book.open(str(path), date=datetime.date(2026, 1, 5))
    assert sum(len(batch.messages["price"]) for batch in feed.batches(tables=("messages",))) > messages
    stats = feed.stats
    assert stats is not None
    assert stats["messages"] == 2 * messages
    assert [stats[key] for key in ("unknown", "malformed", "missing_ref", "dup_ref", "live_orders")] == [0] * 5


def test_the_same_seed_gives_the_same_file() -> None:
    assert itch_block(SIZE, 3) == itch_block(SIZE, 3)
