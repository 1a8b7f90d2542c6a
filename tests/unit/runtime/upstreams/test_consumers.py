"""Who reads a log, and whose feed it is, stands in files that any process may read."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltabook.wire.directories import Claim
from runtime.epochs import LocalDisk
from runtime.upstreams import (
    Beat,
    Consumer,
    Consumers,
    SessionClaim,
    SessionClaims,
    UpstreamError,
    read_beat,
    sessions,
    write_beat,
)
from runtime.upstreams.errors import DamagedConsumerError


def consumer(identity: str, epoch: int) -> Consumer:
    return Consumer(identity, "/runs/main", "db-1", "a", epoch, 7)


def session(identity: str, name: str = "S1") -> SessionClaim:
    return SessionClaim(name, identity, f"/runs/{identity}", Claim("db-1", 7))


def test_retention_waits_for_the_last_consumer(tmp_path: Path) -> None:
    consumers = Consumers(tmp_path)
    assert consumers.passed(9) == 9
    consumers.put(consumer("a1", 3))
    consumers.put(consumer("b2", 5))
    consumers.put(consumer("a1", 4))
    assert (consumers.passed(9), consumers.passed(2)) == (4, 2)
    assert [each.identity for each in consumers.list()] == ["a1", "b2"]
    assert consumers.forget("a1")
    assert not consumers.forget("a1")
    assert consumers.passed(9) == 5


def test_a_file_that_says_nothing_stops_retention(tmp_path: Path) -> None:
    consumers = Consumers(tmp_path)
    consumers.put(consumer("a1", 3))
    (tmp_path / "consumers" / "a1.json").write_bytes(b"{")
    with pytest.raises(UpstreamError, match="expected a consumer at"):
        consumers.passed(9)
    consumers.put(consumer("a1", 3))
    data = (tmp_path / "consumers" / "a1.json").read_bytes()
    for place in range(data.index(b',"checksum"')):
        (tmp_path / "consumers" / "a1.json").write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(DamagedConsumerError, match=f"at {tmp_path}.*upstream forget"):
            consumers.passed(9)
    (tmp_path / "consumers" / "a1.json").write_bytes(data.partition(b',"checksum"')[0] + b"}")
    assert consumers.passed(9) == 3, "of an earlier release"


def test_consumers_are_bounded(tmp_path: Path) -> None:
    consumers = Consumers(tmp_path)
    for number in range(100):
        consumers.put(consumer(f"{number:03}", 1))
    with pytest.raises(UpstreamError, match="at most 100 consumers"):
        consumers.put(consumer("more", 1))
    consumers.put(consumer("000", 2))


def test_a_session_is_of_one_log(tmp_path: Path) -> None:
    claims = SessionClaims(tmp_path / "main")
    claims.take(session("a"))
    claims.take(session("a"))
    claims.take(session("b", "../S2"))
    with pytest.raises(UpstreamError, match=r"expected session S1 .* was in /runs/a .*process 7 on db-1.*into /runs/b"):
        claims.take(session("b"))
    assert [each.session for each in claims.list()] == ["../S2", "S1"]
    assert claims.release("S1")
    assert not claims.release("S1")
    claims.take(session("b"))
    assert sorted(path.name for path in (tmp_path / "main").rglob("*") if path.name.startswith(".")) == []


class _ReleasingDisk(LocalDisk):
    """Disk on which a claim is released after a second one has failed and before it is read."""

    def link(self, path: Path, to: Path) -> None:
        try:
            super().link(path, to)
        except FileExistsError:
            self.unlink(to)
            raise


def test_a_session_released_meanwhile_is_claimed(tmp_path: Path) -> None:
    SessionClaims(tmp_path).take(session("a"))
    claims = SessionClaims(tmp_path, _ReleasingDisk())
    claims.take(session("b"))
    assert [each.identity for each in claims.list()] == ["b"]


def test_a_claim_that_is_neither_there_nor_free_is_an_error(tmp_path: Path) -> None:
    claims = SessionClaims(tmp_path)
    claims.take(session("a"))
    (path,) = (tmp_path / "claims").iterdir()
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(UpstreamError, match="expected a claim of session S1 or none"):
        claims.take(session("b"))


def test_sessions_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A runtime that starts again claims a session that it has: the claim is not one more."""
    monkeypatch.setattr(sessions, "_MOST", 2)
    claims = SessionClaims(tmp_path)
    claims.take(session("a", "S1"))
    claims.take(session("a", "S2"))
    with pytest.raises(UpstreamError, match="at most 2 sessions"):
        claims.take(session("a", "S3"))
    claims.take(session("a", "S2"))
    with pytest.raises(UpstreamError, match="expected session S1 in one log"):
        claims.take(session("b", "S1"))


def test_a_consumer_registers_beside_a_damaged_file(tmp_path: Path) -> None:
    consumers = Consumers(tmp_path)
    consumers.put(consumer("a1", 3))
    (tmp_path / "consumers" / "a1.json").write_bytes(b"{")
    consumers.put(consumer("b2", 5))
    assert [each.identity for each in consumers.readable()[0]] == ["b2"]


def test_a_beat_is_the_last_one_that_was_written(tmp_path: Path) -> None:
    assert read_beat(tmp_path) is None
    beats = [Beat(1, epoch, 5, is_connected=True, is_paused=False) for epoch in range(2)]
    for beat in beats:
        write_beat(tmp_path, beat)
    assert read_beat(tmp_path) == beats[-1]
    (tmp_path / "beat").write_bytes(b"")
    assert read_beat(tmp_path) is None


def test_damaged_files_do_not_hide_the_other_consumers(tmp_path: Path) -> None:
    consumers = Consumers(tmp_path)
    consumers.put(Consumer("1", "m", "here", "a", epoch=3))
    (tmp_path / "consumers" / "2.json").write_bytes(b"{")
    found, damaged = consumers.readable()
    assert ([consumer.identity for consumer in found], damaged) == (["1"], 1)
    with pytest.raises(UpstreamError, match="expected a consumer"):
        consumers.list()
