"""An upstream's log is read on only if it is the one that was read so far."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runtime.epochs import EpochLogError
from runtime.upstreams import UpstreamError, UpstreamLog, UpstreamPosition
from tests.generators.upstream_lab import UpstreamRun, bid


def read(directory: Path, start: UpstreamPosition | None = None, most: int = 100) -> UpstreamLog:
    log = UpstreamLog(-1, "a", directory, start)
    for _ in range(most):
        if log.next() is None:
            break
    return log


def begun(directory: Path, epochs: int) -> UpstreamRun:
    run = UpstreamRun(directory)
    for number in range(epochs):
        run.seal(bid(number))
    return run


def test_a_log_that_is_not_there_is_waited_for(tmp_path: Path) -> None:
    log = UpstreamLog(-1, "a", tmp_path / "a", None)
    assert (log.next(), log.is_there, log.newest()) == (None, False, -1)
    begun(tmp_path / "a", 1)
    assert [epoch.position.epoch for epoch in iter(log.next, None)] == [0, 1]
    assert log.next() is None


def test_who_reads_is_known_before_it_is_looked_what_is_left(tmp_path: Path) -> None:
    calls: list[int] = []
    run = begun(tmp_path / "a", 3)
    log = UpstreamLog(-1, "a", tmp_path / "a", None, on_found=lambda: calls.append(run.retire()))
    first = log.next()
    assert first is not None
    assert (calls, first.position.epoch) == ([3], 2), "the snapshot stands for what is gone"


def test_a_log_without_its_beginning_begins_with_its_snapshot(tmp_path: Path) -> None:
    run = begun(tmp_path / "a", 5)
    assert run.retire() == 5
    log = UpstreamLog(-1, "a", tmp_path / "a", None)
    first, second = log.next(), log.next()
    assert first is not None
    assert second is not None
    assert (first.position.epoch, first.messages, first.relations["bids"].num_rows) == (4, 0, 4)
    assert first.cuts["a/feed"].sequence == 4, "as the epoch has cut that is gone"
    assert first.position.checksum == run.writer.log.read(5).footer.follows
    assert (second.position.epoch, second.messages, log.next()) == (5, 1, None)


@pytest.mark.parametrize("lost", [0, 1, 2, 3])
def test_an_older_copy_is_refused(tmp_path: Path, lost: int) -> None:
    """Whether it is shorter, or has grown again: then its epochs are others."""
    run = begun(tmp_path / "a", 3)
    run.copy_to(tmp_path / "copy")
    run.seal(bid(7))
    run.seal(bid(8))
    position = read(tmp_path / "a").position
    copy = UpstreamRun(tmp_path / "copy", 500)
    for number in range(lost):
        copy.seal(bid(20 + number))
    said = "was a log up to 3: an older copy" if lost == 0 else "an older copy|rewound, restored or replaced"
    with pytest.raises(UpstreamError, match=said):
        read(tmp_path / "copy", position)


def test_a_log_that_is_replaced_while_it_is_read_is_refused(tmp_path: Path) -> None:
    run = begun(tmp_path / "a", 3)
    run.copy_to(tmp_path / "copy")
    run.seal(bid(7))
    log = read(tmp_path / "a")
    run.close()
    copy = UpstreamRun(tmp_path / "copy", 500)
    copy.seal(bid(20))
    copy.seal(bid(21))
    shutil.rmtree(tmp_path / "a")
    (tmp_path / "copy").rename(tmp_path / "a")
    with pytest.raises(UpstreamError, match=r"as what epoch 5 follows, .*rewound, restored or replaced since"):
        log.next()


def test_another_log_is_refused_with_both_named(tmp_path: Path) -> None:
    begun(tmp_path / "a", 2)
    UpstreamRun(tmp_path / "b", 50).seal(bid(1))
    with pytest.raises(UpstreamError, match=r"upstream a: expected the log 1, .* epoch 2 .*, was log 32"):
        read(tmp_path / "b", read(tmp_path / "a").position)


def test_epochs_retired_before_they_were_read_are_missed(tmp_path: Path) -> None:
    run = begun(tmp_path / "a", 2)
    position = read(tmp_path / "a").position
    for number in range(4):
        run.seal(bid(10 + number))
    assert run.retire() == 6
    with pytest.raises(UpstreamError, match=r"expected epoch 3, the next one, .* was a log whose first epoch is 6"):
        read(tmp_path / "a", position)


def test_an_epoch_unnamed_by_a_crash_is_awaited(tmp_path: Path) -> None:
    run = begun(tmp_path / "a", 2)
    position = read(tmp_path / "a").position
    log = run.writer.log
    log.path(2).rename(log.hidden(2))
    again = UpstreamLog(-1, "a", tmp_path / "a", position)
    assert again.next() is None
    log.hidden(2).rename(log.path(2))
    run.seal(bid(9))
    found = again.next()
    assert found is not None
    assert found.position.epoch == 3


def test_an_epoch_that_is_torn_is_not_taken(tmp_path: Path) -> None:
    run = begun(tmp_path / "a", 1)
    path = run.writer.log.path(1)
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(data)
    with pytest.raises(EpochLogError, match="checksum"):
        read(tmp_path / "a")
