"""A runtime is copied with the upstreams that it reads, so that it can go on with their copies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from deltabook.backup import BackupError, back_up
from deltabook.backup.copying import Stage
from runtime.epochs import EpochLogReader
from runtime.upstreams import Consumer, Consumers
from tests.generators.upstream_lab import MainRuntime, UpstreamRun, bid


@pytest.mark.parametrize(("most", "is_told"), [(1, False), (100, True)])
def test_an_upstream_that_removes_what_its_consumer_has_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, is_told: bool
) -> None:
    """The consumer is copied again; if that never ends it is told."""
    system = tmp_path / "system"
    up = UpstreamRun(system / "a")
    up.seal(bid(1))
    main = MainRuntime(system / "m", [("a", system / "a")])
    main.cut()
    Consumers(system / "a").put(Consumer(main.log.identity(), str(system / "m"), "here", "a"))
    copy, times = Stage.copy, 0

    def interrupted(stage: Stage, source: Path, name: str, **options: Any) -> None:
        nonlocal times
        if source == system / "a" / "state.db" and times < most:
            times += 1
            for number in range(3):
                up.seal(bid(10 * times + number))
            main.cut()
            up.retire()
        copy(stage, source, name, **options)

    monkeypatch.setattr(Stage, "copy", interrupted)
    if is_told:
        with pytest.raises(BackupError, match=r"m has read up to epoch \d+ of a, whose first one is"):
            back_up(system, tmp_path / "copy")
    else:
        back_up(system, tmp_path / "copy")
        read = EpochLogReader(tmp_path / "copy" / "m" / "epochs")
        cut = read.read(read.latest()).footer.cuts["a"]
        assert EpochLogReader(tmp_path / "copy" / "a" / "epochs").first() <= cut.sequence + 1
    main.stop()
    up.close()
