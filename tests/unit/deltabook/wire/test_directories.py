"""What a lock file says of whoever holds it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from deltabook.wire.directories import (
    CLAIM_LIMIT_BYTES,
    Claim,
    NotAFileError,
    claimed_by,
    refuse_special_files,
    this_process,
)


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


def test_a_pipe_in_place_of_a_file_is_refused_by_its_name(tmp_path: Path) -> None:
    """To open it would be to wait for its other end."""
    refuse_special_files(tmp_path / "missing")
    (tmp_path / "sobi").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "link").symlink_to("file")
    refuse_special_files(tmp_path)
    for name, make, kind in (
        ("pipe", os.mkfifo, "a pipe"),
        ("null", lambda at: at.symlink_to("/dev/null"), "a device"),
    ):
        path = tmp_path / "sobi" / name
        make(path)
        with pytest.raises(NotAFileError, match=f"expected a file or a directory at {path}, was {kind}"):
            refuse_special_files(tmp_path)
        path.unlink()
