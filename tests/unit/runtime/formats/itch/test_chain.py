"""Few bytes are followed message by message to where the search through all bytes leads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltabook.wire.itch import LONGEST, MESSAGES
from runtime.formats.itch import chain
from runtime.formats.itch.chain import FILE, SOUPBIN, Chain, Framing

_LETTERS = sorted(MESSAGES)


def packet(kind: str, letter: str, filling: int) -> bytes:
    """A SoupBinTCP packet with a message."""
    body = kind.encode() + letter.encode() + bytes([filling]) * (MESSAGES[letter].length - 1)
    return len(body).to_bytes(2, "big") + body


def bare(kind: str, length: int) -> bytes:
    return length.to_bytes(2, "big") + (kind.encode() + bytes(60))[:length]


PACKETS = st.one_of(
    st.builds(packet, st.sampled_from("SSSU"), st.sampled_from(_LETTERS), st.sampled_from([0, 65, 83, 255])),
    st.builds(bare, st.sampled_from("HZAJ+SX"), st.sampled_from([0, 1, 2, 3, 31])),
    st.binary(max_size=5),
)
RECORDS = st.one_of(
    st.builds(packet, st.sampled_from("S"), st.sampled_from(_LETTERS), st.sampled_from([0, 65])).map(
        lambda data: (len(data) - 3).to_bytes(2, "big") + data[3:]
    ),
    st.binary(max_size=5),
)
LIMITS = st.sampled_from([1 << 20, LONGEST + 3, 30])


def same(one: Chain, other: Chain) -> bool:
    return (one.starts.tolist(), one.bad.tolist(), one.stop) == (other.starts.tolist(), other.bad.tolist(), other.stop)


def check(data: bytes, framing: Framing, limit: int, start: int) -> None:
    array = np.frombuffer(data, np.uint8)
    start = min(start, len(data))
    searched = chain._Candidates(array, framing, limit).walk(start)
    followed = chain._walk_few(array, start, framing, limit)
    assert same(followed, searched)


@given(st.lists(PACKETS, max_size=8).map(b"".join), LIMITS, st.integers(0, 4))
def test_packets_are_followed_as_they_are_searched(data: bytes, limit: int, start: int) -> None:
    check(data, SOUPBIN, limit, start)


@given(st.lists(RECORDS, max_size=8).map(b"".join), LIMITS, st.integers(0, 4))
def test_records_are_followed_as_they_are_searched(data: bytes, limit: int, start: int) -> None:
    check(data, FILE, limit, start)


@pytest.mark.parametrize("count", [3, 200], ids=["few", "many"])
def test_an_index_gives_the_chain_of_every_state(count: int) -> None:
    """States are asked for in any order, and again."""
    data = np.frombuffer(packet("S", "D", 7) * count, np.uint8)
    index = chain.ItchRunIndex(data, SOUPBIN, 1 << 20)
    size = MESSAGES["D"].length + 3
    assert len(index.chain(0).starts) == count
    assert index.chain(size).starts[0] == size
    assert len(index.chain(0).starts) == count
    assert index.cut(size).first == size
