"""What a lock file says of whoever holds it."""

from __future__ import annotations

import os
import socket

import pytest

from deltabook.wire.directories import CLAIM_LIMIT_BYTES, Claim, claimed_by, this_process


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (Claim("db-1", 7), "process 7 on db-1"),
        (Claim("db-1", 7, 3, "evening"), "process 7 on db-1, term 3, run evening"),
        (Claim("db-1", 7, since_ns=1_700_000_000 * 10**9), "process 7 on db-1, since 2023-11-14 22:13:20 UTC"),
    ],
)
def test_a_claim_is_read_as_it_was_written(claim: Claim, words: str) -> None:
    assert claimed_by(claim.encoded()) == str(claim) == words


@pytest.mark.parametrize(
    "data", [
        b"", b"4711\n", b"{", b'{"host":"a"}', b"\xff\xfe", b"null", b'{"host":"\xff","process":1}',
        b'{"host":"a","process":1,"since_ns":%d}' % 10**22, b'{"host":"a","process":1,"since_ns":%d}' % 10**40,
    ],
)  # fmt: skip
def test_what_is_no_claim_names_nobody(data: bytes) -> None:
    assert claimed_by(data) == "an unknown process"


def test_this_process_says_where_it_runs() -> None:
    claim = this_process(term=2, run="x" * 100)
    assert (claim.host, claim.process, claim.term) == (socket.gethostname()[:255], os.getpid(), 2)
    assert len(claim.encoded()) <= CLAIM_LIMIT_BYTES
