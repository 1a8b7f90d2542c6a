"""State of views that this release cannot read is rebuilt from relation snapshot and log: see `make_states`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration._oracle import Replayed
from tests.integration._processes import Results, Running, exchange, feed, feed_position
from tests.upgrade.make_states import EARLY, HERE, VIEWS, unpack, write_views

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.process, pytest.mark.timeout(300)]
FORMATS = sorted(int(path.name.removeprefix("states-").split(".")[0]) for path in HERE.glob("states-*.tar.zst"))


@pytest.mark.parametrize("form", FORMATS)
def test_views_resume_over_state_of_an_earlier_format(form: int, tmp_path: Path) -> None:
    """Every view of both lanes is what DuckDB says of the feed's orders; the second start reads its own state."""
    unpack(HERE / f"states-{form}.tar.zst", tmp_path / "run")
    files = [path for lane in write_views(tmp_path / "views") for path in lane]
    with exchange(tmp_path / "run" / "exchange", "--instruments", "ACME,BETA", "--agents", "none") as market:
        port = market.ready().ports["text"]
        newest = feed_position(port)
        expected = Replayed().feed(feed(port, newest)).answers(files)
        where = ["--feed", f"127.0.0.1:{port}", "--dir", str(tmp_path / "run" / "runtime"), "--status-interval", "0.1"]
        log = ""
        for _ in range(2):
            with Running("runtime", *where) as engine:
                for names in (list(VIEWS), [EARLY + name for name in VIEWS]):
                    found = Results(engine).covering(names, newest)
                    assert found.rows == {name: expected[name] for name in names}
                engine.stop()
                log += engine.errors()
    assert log.count(f"its shard state has format {form}, this release reads") == 1
